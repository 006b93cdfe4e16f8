// The figure over time of the live view: it follows the edge of what is known, or stands at a moment.

class LiveTimeline extends Timeline {
  constructor(section, lane, onMove, onFollow) {
    super(section, emptyScene(lane));
    this.onMove = onMove;
    this.onFollow = onFollow;
    this.paths = { latency: null, queues: null };
    this.drawing = null;
  }

  // The series of `kind` that was chosen by name, or the first.
  chosenOf(kind, scene) {
    return scene[kind].find((entry) => entry.name === this.paths[kind]) ?? scene[kind][0];
  }

  // What to draw from now on: a scene, and which stretch of it.
  put(scene, range) {
    scene.marks = spansOf(scene.bursts);
    this.lane = scene;
    this.range = range;
    this.path = this.chosenOf("latency", scene);
    this.queue = this.chosenOf("queues", scene);
  }

  async draw(light, palette) {
    this.drawing = null;
    this.lane.figure = this.figure;
    await super.draw(light, palette);
    this.place.on("plotly_doubleclick", () => this.onFollow());
  }

  // Where the reader went, by mouse or keys: who owns the figure decides what is drawn there.
  show(a, b) {
    const span = Math.max(b - a, this.least), from = (a + b - span) / 2;
    return this.onMove(Math.floor(from), Math.ceil(from + span));
  }

  tops() {
    const found = {};
    const top = Math.max(this.lane.link ? 100 : 0, this.lane.factor * this.view.largest.reduce((p, q) => Math.max(p, q), 0)) * 1.09 || 1;
    if (top > this.top || top < 0.6 * this.top) found["yaxis.range"] = [0, this.top = top];
    if (this.points && this.roles.includes("latency")) {
      const known = [...this.points.largest, ...this.points.median].filter((ns) => ns > 0);
      const low = Math.log10(known.reduce((p, q) => Math.min(p, q), known[0] ?? 1e4) / 1e6 / 1.5);
      const high = Math.log10(known.reduce((p, q) => Math.max(p, q), known[0] ?? 1e7) / 1e6 * 2.2);
      const now = this.latencyRange;
      if (!now || low < now[0] || high > now[1] || high - low < 0.6 * (now[1] - now[0])) found["yaxis2.range"] = this.latencyRange = [low, high];
    }
    if (this.windows && this.roles.includes("queue")) {
      const high = Math.max(1e-3, this.windows.reduce((p, window) => Math.max(p, window[2]), 0) / 1e6) * 1.12;
      if (!this.queueTop || high > this.queueTop || high < 0.4 * this.queueTop) found["yaxis3.range"] = [0, this.queueTop = high];
    }
    return found;
  }

  // One drawing at a time; what came meanwhile is drawn after it.
  async refresh() {
    if (!this.roles) return;
    if (this.drawing) { this.again = true; return; }
    this.drawing = this.drawNow();
    try { await this.drawing; } finally { this.drawing = null; }
    if (this.again) { this.again = false; await this.refresh(); }
  }

  async drawNow() {
    const width = this.width(), [a, b] = this.range;
    if (!this.path) this.points = null;
    if (!this.queue) this.windows = null;
    const found = this.traces(Math.floor(width));
    const axis = timeTicks(this.lane.originS, a, b, width);
    const indices = this.roles.map((_, i) => i).filter((i) => found[this.roles[i]]);
    await Plotly.update(this.place, {
      x: indices.map((i) => found[this.roles[i]].x), y: indices.map((i) => found[this.roles[i]].y),
    }, { "xaxis.range": [a / 1e9, b / 1e9], "xaxis.tickvals": axis.at, "xaxis.ticktext": axis.text, ...this.tops() }, indices);
    const bins = Math.round(this.view.bins);
    this.section.querySelector(".step").textContent = bins > 1
      ? `Shown: ${duration(b - a)} in steps of ${duration(this.view.width)}, each the largest and the mean of ${bins.toLocaleString("en")} bins.`
      : `Shown: ${duration(b - a)}, every bin of ${duration(this.view.width)} by itself.`;
    if (this.pointed === undefined) this.tell(null);
  }

  tell(ns) {
    if (ns !== null) return super.tell(ns);
    this.pointed = undefined;
    this.section.querySelector(".readout").textContent = matchMedia("(pointer: coarse)").matches
      ? "Touch the figure to read it." : "Point at the figure to read it, drag across it to zoom, double-click to follow.";
    return undefined;
  }
}

const spansOf = (bursts) => {
  const found = [...bursts].sort((p, q) => p.start - q.start);
  return { start: found.map((burst) => burst.start), end: found.map((burst) => burst.end) };
};

const emptyCells = (width, bin) => ({ width, bin, first: 0, start: 0, cells: [], largest: [], total: [] });

const emptyScene = (lane) => ({
  ...lane, start: 0, end: 1e9, coverage: { start: [], end: [] }, losing: { start: [], end: [] }, marks: { start: [], end: [] },
  base: emptyCells(lane.bin, lane.bin), detail: null, detailCells: [], seconds: emptyCells(1e9, 1e9), latency: [], queues: [], bursts: [],
});
