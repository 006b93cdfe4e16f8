// The figures of probed paths, which contain all of their points from the start.

async function drawPaths(facts, palette) {
  for (const root of $("[data-path]")) {
    const figures = facts.paths[Number(root.dataset.path)];
    for (const place of $("[data-figure]", root)) {
      const figure = recolour(figures[place.dataset.figure], facts.light, palette);
      keepTouches(place, figure.layout);
      await Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
    }
  }
}
