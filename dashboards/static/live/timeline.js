// The figure over time of the live view: it follows the edge of the known time, or stays at a moment.

const STEPS_BUNDLE = 256, MOST_STEPS = 8192;

// Returns ticks in milliseconds of a logarithmic axis from 10^low to 10^high: decades, and values in between if they
// are few.
function latencyTicks(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power++) {
    for (const step of high - low < 1.6 ? [1, 2, 5] : [1]) found.push(step * 10 ** power);
  }
  return found.filter((ms) => Math.log10(ms) >= low && Math.log10(ms) <= high);
}

class LiveTimeline extends Timeline {
  constructor(section, lane, lines, { onMove, onFollow, onShown }) {
    super(section, emptyScene(lane));
    Object.assign(this, { lines, onMove, onFollow, onShown });
    this.paths = { latency: null, queues: null };
    this.drawing = null;
    this.empty = lane.figures[0];
  }

  // Returns the series of `kind` that was chosen by name, or the first one.
  chosenOf(kind, scene) {
    return scene[kind].find((entry) => entry.name === this.paths[kind]) ?? scene[kind][0];
  }

  // Set what to draw from now on: a scene, and the visible part of it.
  put(scene, range) {
    scene.marks = spansOf(scene.bursts);
    this.lane = scene;
    this.range = range;
    this.path = this.chosenOf("latency", scene);
    this.queue = this.chosenOf("queues", scene);
  }

  // Draw from scratch in the colours of `palette`. The horizontal axis of the figure itself is a share of the shown
  // time.
  async draw(light, palette) {
    this.drawing = null;
    this.figure = recolour(this.empty, light, palette);
    keepTouches(this.place, this.figure.layout);
    this.top = this.figure.layout.yaxis.range[1];
    fitHeight(this.place, this.figure.layout);
    this.latencyRange = this.queueTop = null;
    // A copy of the layout, because plotly removes its height when the page is resized; the axes are shared.
    await Plotly.newPlot(this.place, this.figure.data, { ...this.figure.layout, shapes: [] }, CONFIG);
    this.place.on("plotly_relayout", (change) => this.moved(change));
    this.place.on("plotly_doubleclick", () => this.onFollow());
    this.wire();
    await this.refresh();
  }

  margins() { return this.empty.layout.margin; }

  // A second is reported when it is complete: the current one is not known to be silent.
  coverageOfSeconds() {
    return spansBefore(this.lane.coverage, Math.floor(this.lane.edge / 1e9) * 1e9);
  }

  // Returns the number of steps of a drawing: about one for each pixel of the screen, rounded so that browsers of
  // similar width receive the same messages.
  steps() { return Math.min(MOST_STEPS, Math.ceil(this.width() * devicePixelRatio / STEPS_BUNDLE) * STEPS_BUNDLE); }

  // A box was drawn, in shares of the shown time; or the page has another width.
  moved(change) {
    const low = change["xaxis.range[0]"], high = change["xaxis.range[1]"], [a, b] = this.range, span = b - a;
    if (low === undefined) return change.autosize ? this.refresh() : undefined;
    Plotly.relayout(this.place, { "xaxis.range": [0, 1] });
    return this.show(a + low * span, a + high * span);
  }

  // The reader moved, by mouse or keys: the owner of the figure decides what to draw there.
  show(a, b) {
    const span = Math.max(b - a, this.least), from = (a + b - span) / 2;
    return this.onMove(Math.floor(from), Math.ceil(from + span));
  }

  traces(steps) {
    const found = super.traces(steps), { x, y } = found.second, end = y.length - 1;
    // At the edge of the known time, nothing falls to zero.
    if (end > 2 && x[end - 2] === x[end]) y[end - 2] = y[end - 1] = y[end - 3];
    return found;
  }

  tops() {
    const found = {};
    const top = Math.max(this.lane.link ? 100 : 0, this.lane.factor * this.view.largest.reduce((p, q) => Math.max(p, q), 0)) * 1.09 || 1;
    if (top > this.top || top < 0.6 * this.top) found["yaxis.range"] = [0, this.top = top];
    if (this.points && this.has("latency")) {
      const known = [...this.points.largest, ...this.points.median].filter((ns) => ns > 0);
      const low = Math.log10(known.reduce((p, q) => Math.min(p, q), known[0] ?? 1e4) / 1e6 / 1.5);
      const high = Math.log10(known.reduce((p, q) => Math.max(p, q), known[0] ?? 1e7) / 1e6 * 2.2);
      const now = this.latencyRange;
      if (!now || low < now[0] || high > now[1] || high - low < 0.6 * (now[1] - now[0])) {
        const ticks = latencyTicks(low, high);
        Object.assign(found, { "yaxis2.range": this.latencyRange = [low, high], "yaxis2.tickvals": ticks, "yaxis2.ticktext": ticks.map((ms) => duration(ms * 1e6)) });
      }
    }
    if (this.windows && this.has("queue")) {
      const high = Math.max(1e-3, this.windows.reduce((p, window) => Math.max(p, window[2]), 0) / 1e6) * 1.12;
      if (!this.queueTop || high > this.queueTop || high < 0.4 * this.queueTop) found["yaxis3.range"] = [0, this.queueTop = high];
    }
    return found;
  }

  has(role) { return this.figure.data.some((trace) => trace.meta === role); }

  // One drawing at a time; later changes are drawn after it.
  async refresh() {
    if (!this.figure) return;
    if (this.drawing) { this.again = true; return; }
    this.drawing = this.drawNow();
    try { await this.drawing; } finally { this.drawing = null; }
    if (this.again) { this.again = false; await this.refresh(); }
  }

  async drawNow() {
    const width = this.place.clientWidth, { edge } = this.lane, [a, b] = this.range;
    if (!width) return; // the page is being laid out again: it will call again
    if (!this.path) this.points = null;
    if (!this.queue) this.windows = null;
    this.found = this.traces(this.steps());
    const tops = this.tops();
    if (Object.keys(tops).length) {
      await Plotly.relayout(this.place, tops);
      this.found = this.traces(this.steps()); // recomputes what reaches up to the top
    }
    const { drawn, shown } = this.lines.paint(this.figure, this.found, this.range, timeTicks(this.lane.originS, a, b, this.width()), width);
    this.shown = shown.then(() => this.onShown(edge));
    const bins = Math.round(this.view.bins);
    this.section.querySelector(".step").textContent = bins > 1
      ? `Shown: ${duration(b - a)} in steps of ${duration(this.view.width)}, each the largest and the mean of ${bins.toLocaleString("en")} bins.`
      : `Shown: ${duration(b - a)}, every bin of ${duration(this.view.width)} by itself.`;
    if (this.pointed === undefined) this.readOut(null);
    await drawn;
  }

  readOut(ns) {
    this.pointed = ns ?? undefined;
    const spike = this.section.querySelector(".spike"), [a, b] = this.range;
    spike.hidden = ns === null;
    if (ns !== null) {
      spike.style.left = `${this.empty.layout.margin.l + this.width() * (ns - a) / (b - a)}px`;
      return super.readOut(ns);
    }
    this.section.querySelector(".readout").textContent = matchMedia("(pointer: coarse)").matches
      ? "Touch the figure to read it." : "Point at the figure to read it, drag across it to zoom, double-click to follow.";
    return undefined;
  }
}

const spansBefore = ({ start, end }, ns) => {
  const kept = start.filter((at) => at < ns).length;
  return { start: start.slice(0, kept), end: end.slice(0, kept).map((at) => Math.min(at, ns)) };
};

const spansOf = (bursts) => {
  const found = [...bursts].sort((p, q) => p.start - q.start);
  return { start: found.map((burst) => burst.start), end: found.map((burst) => burst.end) };
};

const emptyCells = (width, bin) => ({ width, bin, first: 0, start: 0, cells: [], largest: [], total: [] });

const emptyScene = (lane) => ({
  ...lane, edge: 0, start: 0, end: 1e9, coverage: { start: [], end: [] }, losing: { start: [], end: [] }, marks: { start: [], end: [] },
  base: emptyCells(lane.bin, lane.bin), detail: null, detailCells: [], seconds: emptyCells(1e9, 1e9), latency: [], queues: [], bursts: [],
});
