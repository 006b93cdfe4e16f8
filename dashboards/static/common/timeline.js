// The figure over time. Plotly draws it; every zoom reads the arrays again, one step per pixel.

const CONFIG = {
  displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "", responsive: true,
  doubleClick: "reset", scrollZoom: false,
};
const NEAR = 3; // pixels from a probe at which it is read

function boxes(found, height) {
  const x = [], y = [];
  for (const [a, b, high] of found) {
    x.push(a / 1e9, a / 1e9, b / 1e9, b / 1e9, null);
    y.push(0, high ?? height, high ?? height, 0, null);
  }
  return { x, y };
}

function ticks(found, level) {
  return { x: found.flatMap(([a, b]) => [a / 1e9, b / 1e9, null]), y: found.flatMap(() => [level, level, null]) };
}

const inMs = (ns) => (ns === null ? null : ns / 1e6);

function modeOf(trace, { x }) {
  if (!trace.marker || trace.mode === "markers") return trace.mode;
  return x.length <= FEW_POINTS ? "lines+markers" : "lines";
}

class Timeline {
  constructor(section, lane) {
    this.lane = lane;
    this.section = section;
    this.place = section.querySelector(".timeline");
    this.range = lane.opening ?? [lane.start, lane.end];
    this.path = lane.latency[0];
    this.queue = lane.queues[0];
    this.chosen = null;
    this.onPick = () => {};
    this.least = Math.max(2 * lane.bin, 1000);
  }

  // Draw from scratch in the colours of `palette`.
  async draw(light, palette) {
    const figure = recolour(this.lane.figure, light, palette);
    keepTouches(this.place, figure.layout);
    figure.layout.xaxis.title = { text: "" };
    figure.layout.hoverdistance = -1;
    this.top = figure.layout.yaxis.range[1];
    fitHeight(this.place, figure.layout);
    await Plotly.newPlot(this.place, figure.data, figure.layout, CONFIG);
    this.roles = figure.data.map((trace) => trace.meta);
    this.place.on("plotly_relayout", (change) => this.moved(change));
    this.wire();
    await this.refresh();
  }

  // The pointer is read wherever it is: plotly reports no pointer where nothing is drawn, as in a pause.
  wire() {
    this.place.onpointermove = (event) => this.readAt(event);
    this.place.onpointerdown = (event) => this.readAt(event);
    this.place.onpointerleave = (event) => { if (event.pointerType === "mouse") this.readAt(null); };
    this.place.onclick = (event) => { if (this.isInPanels(event)) this.pick(this.timeAt(event)); };
  }

  // Read where the pointer is; null: it has left.
  readAt(event) {
    this.pointer = event;
    this.readOut(event && this.timeAt(event));
  }

  // Read again, of other shown time: a mouse is where it was, and a touch has read a time.
  readAgain() {
    const [a, b] = this.range, ns = this.pointer?.pointerType === "mouse" ? this.timeAt(this.pointer) : this.pointed;
    this.readOut(ns >= a && ns <= b ? ns : null);
  }

  margins() { return this.place.layout.margin; }

  width() {
    const { l, r } = this.margins();
    return Math.max(50, this.place.clientWidth - l - r);
  }

  // Returns the time below the pointer, null outside of the figure.
  timeAt(event) {
    const x = event.clientX - this.place.getBoundingClientRect().left - this.margins().l, [a, b] = this.range;
    return x >= 0 && x <= this.width() ? a + (b - a) * x / this.width() : null;
  }

  // Returns whether the pointer is at the height of the panels, and not on the labels of the axes.
  isInPanels(event) {
    const { top, bottom } = this.place.getBoundingClientRect(), { t, b } = this.margins();
    return event.clientY >= top + t && event.clientY <= bottom - b;
  }

  moved(change) {
    if ("width" in change || "height" in change || change.autosize) return this.refresh();
    const low = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
    const high = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
    if (low === undefined || high === undefined) return undefined;
    return this.show(low * 1e9, high * 1e9);
  }

  // Show [a, b) nanoseconds: inside the recording, and at least two bins.
  show(a, b) {
    const { start, end } = this.lane;
    const span = Math.min(Math.max(b - a, this.least), end - start);
    const from = Math.min(Math.max((a + b - span) / 2, start), end - span);
    this.range = [Math.floor(from), Math.ceil(from + span)];
    return this.refresh();
  }

  coverageOfSeconds() { return this.lane.coverage; }

  traces(buckets) {
    const { lane } = this, [a, b] = this.range, pixel = (b - a) / buckets;
    const view = finestView(lane, a, b, buckets);
    const seconds = viewOf(lane.seconds, a, b, buckets, lane.coverage);
    const scale = (values) => values.map((value) => value * lane.factor);
    const bursts = visible(lane.marks, a, b, pixel);
    this.view = view;
    this.seconds = seconds;
    const chosen = this.chosen ? [[this.chosen.start, Math.max(this.chosen.end, this.chosen.start + 3 * pixel)]] : [];
    const found = {
      shade: boxes(bursts.length <= 80 ? bursts : [], this.top),
      chosen: boxes(chosen, this.top),
      largest: stepLine(view, scale(view.largest), lane.coverage, a, b),
      mean: stepLine(view, scale(view.mean), lane.coverage, a, b),
      second: stepLine(seconds, scale(seconds.largest), this.coverageOfSeconds(), a, b),
      marks: ticks(bursts, 1),
      losing: ticks(visible(lane.losing, a, b, pixel), 0),
    };
    if (this.path) {
      const points = this.points = latencyView(this.path, a, b, buckets);
      const x = points.at.map((ns) => ns / 1e9);
      found.latency = { x, y: points.largest.map(inMs) };
      found["latency-median"] = { x, y: points.median.map(inMs) };
      const ceiling = 10 ** (this.place.layout.yaxis2.range[1] - 0.12);
      found.lost = { x: points.lost.map((ns) => ns / 1e9), y: points.lost.map(() => ceiling) };
    }
    if (this.queue) {
      this.windows = queueView(this.queue, a, b, buckets);
      found.queue = boxes(this.windows.map(([p, q, high]) => [p, q, high / 1e6]), 0);
    }
    return found;
  }

  async refresh() {
    const width = this.width(), [a, b] = this.range;
    const found = this.traces(Math.floor(width));
    const axis = timeTicks(this.lane.originS, a, b, width);
    const indices = this.roles.map((_, i) => i).filter((i) => found[this.roles[i]]);
    await Plotly.update(this.place, {
      x: indices.map((i) => found[this.roles[i]].x), y: indices.map((i) => found[this.roles[i]].y),
      mode: indices.map((i) => modeOf(this.place.data[i], found[this.roles[i]])),
    }, { "xaxis.range": [a / 1e9, b / 1e9], "xaxis.tickvals": axis.at, "xaxis.ticktext": axis.text }, indices);
    const bins = Math.round(this.view.bins);
    this.section.querySelector(".step").textContent = bins > 1
      ? `Shown: ${this.spanText()} in steps of ${duration(this.view.width)}, each the largest and the mean of ${bins.toLocaleString("en")} bins.`
      : `Shown: ${this.spanText()}, every bin of ${duration(this.view.width)} by itself.`;
    this.readAgain();
  }

  // The length of the shown time, and of the whole time if that is longer.
  spanText() {
    const [a, b] = this.range, all = this.lane.end - this.lane.start;
    return b - a < all ? `${duration(b - a)} of ${duration(all)}` : duration(b - a);
  }

  // Show the values at `ns` in words below the figure.
  readOut(ns) {
    const out = this.section.querySelector(".readout");
    this.pointed = ns ?? undefined;
    if (ns === null) {
      out.textContent = matchMedia("(pointer: coarse)").matches ? "Touch the figure to read it."
        : "Point at the figure to read it, drag across it to zoom, double-click for the whole time.";
      return;
    }
    const { lane } = this;
    const rate = (view, values) => {
      const i = lowerBound(view.start, ns + 1) - 1;
      const value = i >= 0 && ns < view.start[i] + view.width ? values[i] : 0;
      return `${threeDigits(value * lane.factor)} ${lane.suffix.trim()}`;
    };
    const digits = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10((this.range[1] - this.range[0]) / 1000))));
    const at = clock(lane.originS, Math.floor(ns), digits);
    const lines = [`${at.day} ${at.minute}:${at.second}`];
    if (isWithin(lane.coverage, ns)) {
      lines.push(`largest ${rate(this.view, this.view.largest)}`, `mean ${rate(this.view, this.view.mean)}`);
      if (isWithin(this.coverageOfSeconds(), ns)) lines.push(`1 s average ${rate(this.seconds, this.seconds.largest)}`);
    } else lines.push("not recorded");
    const probe = this.probeAt(ns);
    if (probe !== null) lines.push(`latency ${duration(probe)}`);
    if (this.windows) {
      const inside = this.windows.filter(([p, q]) => p <= ns && ns <= q);
      if (inside.length) lines.push(`queue ${bytes(Math.max(...inside.map((window) => window[2])))}`);
    }
    out.textContent = lines.join("  ·  ");
  }

  // Returns the latency of the nearest probe, or null if it is more than a step and a few pixels away.
  probeAt(ns) {
    const { at, largest } = this.points ?? { at: [] };
    const i = lowerBound(at, ns), apart = (k) => (at[k] === undefined || largest[k] === null ? Infinity : Math.abs(at[k] - ns));
    const nearest = apart(i - 1) < apart(i) ? i - 1 : i, most = Math.max(this.view.width, NEAR * (this.range[1] - this.range[0]) / this.width());
    return apart(nearest) <= most ? largest[nearest] : null;
  }

  pick(ns) {
    if (ns === null) return;
    const slack = 3 * (this.range[1] - this.range[0]) / this.width();
    const near = this.lane.bursts.filter((burst) => burst.start - slack <= ns && ns <= burst.end + slack);
    if (near.length) this.onPick(near.reduce((p, q) => (q.bytes > p.bytes ? q : p)));
  }

  showBurst(burst) {
    const around = 0.75 * (burst.end - burst.start);
    return this.show(burst.start - around, burst.end + around);
  }

  // Returns the burst of the table before or after the chosen one if that is visible, otherwise before or after the
  // shown time.
  neighbour(later) {
    const [a, b] = this.range;
    const at = this.chosen && this.chosen.end >= a && this.chosen.start <= b ? this.chosen.start : later ? a - 1 : b + 1;
    const ordered = [...this.lane.bursts].sort((p, q) => p.start - q.start);
    return later ? ordered.find((burst) => burst.start > at) : ordered.findLast((burst) => burst.start < at);
  }

  do(what) {
    const [a, b] = this.range, span = b - a;
    const moves = {
      all: [this.lane.start, this.lane.end], in: [a + span / 4, b - span / 4], out: [a - span / 2, b + span / 2],
      left: [a - span / 2, b - span / 2], right: [a + span / 2, b + span / 2],
    };
    return this.show(...moves[what]);
  }
}
