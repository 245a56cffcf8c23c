"use strict";
// Draws the charts, gives them the page's colours, and keeps a live page up to date.
(() => {
  const root = document.documentElement;
  const described = JSON.parse(document.getElementById("charts").textContent);
  const plots = {}, ranges = {};  // by the ids of charts; the ends of axes as they were last set
  // Pixels that a chart may have on A4 or letter; two and their words fill a sheet.
  const PAPER = {width: 620, height: 240, square: 360, paired: 310, panel: 145};

  function paint() {
    const style = getComputedStyle(root);
    const color = (name) => style.getPropertyValue("--" + name).trim();
    const ink = color("ink"), muted = color("muted"), grid = color("grid");
    for (const plot of Object.values(plots)) {
      for (const axis of [...plot.below, ...plot.left]) {
        axis.setv({
          axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: muted,
          major_tick_line_color: muted, minor_tick_line_color: null,
          axis_label_text_font_style: "normal", axis_label_text_font_size: "13px",
          major_label_text_font_size: "12px",
        });
      }
      for (const thing of plot.center) thing.setv({grid_line_color: grid});
      for (const renderer of plot.renderers) {
        const value = {value: color(renderer.tags[0])};
        const glyph = renderer.glyph;
        if (glyph.properties.line_color && glyph.line_color.value !== null) glyph.line_color = value;
        if (glyph.properties.fill_color) glyph.fill_color = value;
        if (glyph.properties.hatch_color) glyph.hatch_color = value;
      }
    }
  }

  function choose(select) {
    for (const renderer of plots[select.dataset.chart].renderers) {
      renderer.visible = ["", select.value].includes(renderer.tags[1]);
    }
  }

  // Makes the axes of a chart equally long: its height is that of its frame and of what is around.
  function makeSquare(view) {
    const {width, height} = view.frame.bbox;
    const wanted = view.bbox.height - height + width;
    if (width > 0 && Math.abs(wanted - view.model.height) > 1) view.model.height = Math.round(wanted);
  }

  // Sorts the rows of a table by a column; text as text, numbers as numbers, what is unknown last.
  function sort(table, column, ascending) {
    const value = (row) => {
      const cell = row.cells[column], number = cell.dataset.value;
      if (number === undefined) return cell.textContent;
      return number === "nan" ? NaN : Number(number.replace("inf", "Infinity"));
    };
    const order = (a, b) => typeof a === "string" ? a.localeCompare(b)
      : Number.isNaN(a) || Number.isNaN(b) ? 0 : a - b || 0;
    const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
    const known = rows.filter(([a]) => !Number.isNaN(a)), unknown = rows.filter(([a]) => Number.isNaN(a));
    known.sort(([a], [b]) => ascending ? order(a, b) : order(b, a));
    table.tBodies[0].append(...[...known, ...unknown].map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      if (i === column) th.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
    table.dataset.sorted = JSON.stringify([column, ascending]);
  }

  function sortAgain(table) {
    if (table.dataset.sorted) sort(table, ...JSON.parse(table.dataset.sorted));
  }

  document.addEventListener("click", (event) => {
    const th = event.target.closest("table[data-sortable] th");
    if (th) sort(th.closest("table"), th.cellIndex, th.getAttribute("aria-sort") === "descending");
  });

  function showAge() {
    const time = document.querySelector("#updated time");
    if (!time) return;
    const seconds = Math.max(0, Date.now() / 1000 - Number(time.dataset.seconds));
    const [n, unit] = seconds < 120 ? [seconds, "s"] : seconds < 7200 ? [seconds / 60, "min"]
      : seconds < 172800 ? [seconds / 3600, "h"] : [seconds / 86400, "days"];
    time.nextElementSibling.textContent = `(${Math.floor(n)} ${unit} ago)`;
  }

  async function draw() {
    for (const [id, item] of Object.entries(described)) {
      const views = await Bokeh.embed.embed_item(item, document.getElementById(id + "-chart"));
      const [view] = [...views];
      plots[id] = view.model;
      ranges[id] = [view.model.x_range, view.model.y_range].map((range) => [range.start, range.end]);
      if (view.model.name === "square") {
        makeSquare(view);
        new ResizeObserver(() => makeSquare(view)).observe(document.getElementById(id));
      }
    }
    paint();
    const kept = history.state || {};
    for (const select of document.querySelectorAll("select[data-chart]")) {
      const wanted = kept[select.dataset.chart];
      if ([...select.options].some((option) => option.value === wanted)) select.value = wanted;
      select.addEventListener("change", () => choose(select));
      choose(select);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        root.classList.toggle("paper", paper);
        paint();
        // A browser does not lay charts out anew for paper: they are made to fit.
        for (const chart of document.querySelectorAll(".chart")) {
          const isPaired = chart.closest(".charts:has(.square + .square)");
          const most = chart.closest(".panel") ? PAPER.panel : !chart.closest(".square") ? PAPER.height
            : isPaired ? PAPER.paired : PAPER.square;
          const zoom = Math.min(1, PAPER.width / chart.offsetWidth, most / chart.offsetHeight);
          chart.style.zoom = paper ? zoom : "";
        }
      });
    }
    root.dataset.ready = "yes";
  }

  // Sets the ends of axes, unless the reader has zoomed.
  function setRanges(id, ends) {
    [plots[id].x_range, plots[id].y_range].forEach((range, i) => {
      const [low, high] = ranges[id][i];
      if (ends[i] === null || range.start !== low || range.end !== high) return;
      range.setv({start: ends[i][0], end: ends[i][1]});
      ranges[id][i] = ends[i];
    });
  }

  // What a live page asks for: the numbers, if they have changed.
  async function refresh(status) {
    try {
      const answer = await fetch("data.json?after=" + encodeURIComponent(root.dataset.version));
      if (!answer.ok) {
        status.textContent = "these are the last numbers: " + (await answer.text()).trim();
        status.classList.add("lost");
        return;
      }
      const update = await answer.json();
      status.textContent = "live";
      status.classList.remove("lost");
      if (update.version === root.dataset.version) return;
      if (update.structure !== root.dataset.structure) {
        const selects = [...document.querySelectorAll("select[data-chart]")];
        const chosen = selects.map((select) => [select.dataset.chart, select.value]);
        history.replaceState(Object.fromEntries(chosen), "");  // stays when the page is loaded again
        location.reload();
        return;
      }
      for (const [id, html] of Object.entries(update.html)) document.getElementById(id).innerHTML = html;
      document.querySelectorAll("table[data-sorted]").forEach(sortAgain);
      showAge();
      for (const [id, all] of Object.entries(update.charts)) {
        plots[id].renderers.forEach((renderer, i) => { renderer.data_source.data = all[i]; });
      }
      for (const [id, ends] of Object.entries(update.ranges)) setRanges(id, ends);
      root.dataset.version = update.version;
    } catch (error) {
      status.textContent = "not connected: these are the last numbers";
      status.classList.add("lost");
    }
  }

  draw().then(() => {
    const status = document.getElementById("live");
    if (!status) return;
    setInterval(() => refresh(status), 2000);
    setInterval(showAge, 1000);
    showAge();
  });
})();
