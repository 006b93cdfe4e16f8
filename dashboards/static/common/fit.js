// The height of the figure at the top of a page.

const BELOW = 12; // pixels from the figure to the end of the first screen
const LOWEST = 0.43, HIGHEST = 1.5;

// Fills the first screen, between LOWEST and HIGHEST of `layout.height`, so that all panels are visible at once.
function fitHeight(place, layout) {
  const room = innerHeight - place.getBoundingClientRect().top - scrollY - BELOW;
  layout.height = Math.round(Math.min(HIGHEST * layout.height, Math.max(LOWEST * layout.height, room)));
}
