// The height of the figure at the top of a page.

const BELOW = 12; // pixels from the figure to the end of the first screen
const LOWEST = 0.43, HIGHEST = 1.5;

// Fills the first screen, between LOWEST and HIGHEST of `layout.height`, so that all panels are visible at once.
function fitHeight(place, layout) {
  const room = innerHeight - place.getBoundingClientRect().top - scrollY - BELOW;
  layout.height = Math.round(Math.min(HIGHEST * layout.height, Math.max(LOWEST * layout.height, room)));
}

// Draws the figures again for paper, and after printing for the screen. The page is as narrow as A4 meanwhile
// (page.css), because figures keep the width that they were drawn in, and what is beyond the paper would be missing.
function redrawForPaper(onPaper, onScreen) {
  addEventListener("beforeprint", () => { document.documentElement.classList.add("on-paper"); onPaper(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("on-paper"); onScreen(); });
}
