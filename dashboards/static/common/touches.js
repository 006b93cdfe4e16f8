// A touch reads a figure, and scrolls the page. Plotly would zoom, and would take the mouse that the browser imitates
// after a touch for the second click of a double click.

let isTouched = false;

const noteTouch = (event) => { isTouched = event.pointerType === "touch"; };
const keepFromPlotly = (event) => { if (isTouched) event.stopPropagation(); };

// Keeps touches from plotly, in the figure with `layout` that is drawn at `place`, now or again.
function keepTouches(place, layout) {
  if (matchMedia("(pointer: coarse)").matches) layout.dragmode = false;
  place.addEventListener("pointerdown", noteTouch, { capture: true });
  for (const name of ["touchstart", "mousedown"]) place.addEventListener(name, keepFromPlotly, { capture: true, passive: true });
}
