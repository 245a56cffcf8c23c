"use strict";
// What the theme leaves out for readers of screens and for keyboards.
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll(".caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  const names = {".sidebar-drawer": "Pages", ".toc-drawer": "On this page"};
  for (const [place, name] of Object.entries(names)) {
    document.querySelector(place)?.setAttribute("aria-label", name);
  }
  // What scrolls can be reached by the keyboard.
  for (const part of document.querySelectorAll("pre, .table-wrapper, .formula")) {
    part.tabIndex = 0;
  }
});
