// Draws the figures of an investigation, in the colours of the reader's system.

const dark = matchMedia("(prefers-color-scheme: dark)");

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack them");
  const facts = JSON.parse(new TextDecoder().decode(await inflate("facts")));
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(await inflate("plotly"));
  document.head.append(script);
  const config = { displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", displayModeBar: false };
  const draw = (colours) => Promise.all([...document.querySelectorAll("[data-figure]")].map((place) => {
    const figure = recolour(facts.figures[Number(place.dataset.figure)], facts.light, colours);
    if (place.closest(".first")) fitHeight(place, figure.layout);
    keepTouches(place, figure.layout);
    return Plotly.newPlot(place, figure.data, figure.layout, config);
  }));
  const now = () => draw(dark.matches ? facts.dark : facts.light);
  dark.addEventListener("change", now);
  redrawForPaper(() => draw(facts.light), now);
  await now();
}

start().then(() => { document.documentElement.dataset.ready = "true"; }, (error) => {
  const notice = document.getElementById("trouble");
  notice.textContent = `The figures cannot be drawn: ${error.message}. The numbers and tables are complete without them.`;
  notice.hidden = false;
});
