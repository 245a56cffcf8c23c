"use strict";
// Draws the charts, gives them the page's colours, and keeps a live page up to date.
(() => {
  const root = document.documentElement;
  const described = JSON.parse(document.getElementById("charts").textContent);
  const plots = {};
  const PAPER = 620;  // pixels that a sheet of A4 or letter has across, less margins

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
      }
    }
  }

  function choose(select) {
    for (const renderer of plots[select.dataset.chart].renderers) {
      renderer.visible = ["", select.value].includes(renderer.tags[1]);
    }
  }

  async function draw() {
    for (const [id, item] of Object.entries(described)) {
      const views = await Bokeh.embed.embed_item(item, document.getElementById(id + "-chart"));
      plots[id] = [...views][0].model;
    }
    paint();
    for (const select of document.querySelectorAll("select[data-chart]")) {
      select.addEventListener("change", () => choose(select));
      choose(select);
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
    for (const [event, paper] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        root.classList.toggle("paper", paper);
        paint();
        // A browser does not lay charts out anew for paper: wide ones are made to fit.
        for (const chart of document.querySelectorAll(".chart")) {
          chart.style.zoom = paper ? Math.min(1, PAPER / chart.offsetWidth) : "";
        }
      });
    }
    root.dataset.ready = "yes";
  }

  // What a live page asks for: the numbers, if they have changed.
  async function refresh(status) {
    try {
      const answer = await fetch("data.json?after=" + encodeURIComponent(root.dataset.version));
      if (!answer.ok) throw new Error(answer.statusText);
      const update = await answer.json();
      status.textContent = "live";
      status.classList.remove("lost");
      if (update.version === root.dataset.version) return;
      if (update.structure !== root.dataset.structure) {
        location.reload();
        return;
      }
      for (const [id, html] of Object.entries(update.html)) document.getElementById(id).innerHTML = html;
      for (const [id, all] of Object.entries(update.charts)) {
        plots[id].renderers.forEach((renderer, i) => { renderer.data_source.data = all[i]; });
      }
      root.dataset.version = update.version;
    } catch (error) {
      status.textContent = "not connected: these are the last numbers";
      status.classList.add("lost");
    }
  }

  draw().then(() => {
    const status = document.getElementById("live");
    if (status) setInterval(() => refresh(status), 2000);
  });
})();
