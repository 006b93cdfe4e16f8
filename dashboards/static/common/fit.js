// The height of the figure that a page opens with.

const BELOW = 12; // pixels from the figure to the end of the first screen
const LOWEST = 0.43, HIGHEST = 1.5;

// As high as the first screen leaves room for, between LOWEST and HIGHEST of `layout.height`: all panels are seen at once.
function fitHeight(place, layout) {
  const room = innerHeight - place.getBoundingClientRect().top - scrollY - BELOW;
  layout.height = Math.round(Math.min(HIGHEST * layout.height, Math.max(LOWEST * layout.height, room)));
}
