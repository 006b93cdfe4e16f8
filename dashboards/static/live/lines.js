// Draws the moving parts of the live figure on a canvas over it: Plotly needs more than a frame for any change, however
// small. The styles are those of the figure's own traces, which stay empty; vertical axes, zoom box and resizing are
// Plotly's. This code runs in a thread of its own, so that the page stays responsive; drawing.js is the page's side of
// it.

const DASHES = { dot: [1.5, 3], solid: [] };
const BESIDE = 100; // pixels beyond the page at which lines end: a second reaches far beyond a zoom to single bins
const CROSS = 3.5; // pixels from the middle of a lost probe's cross to its ends

// Returns where the vertical axis `name` (y, y2, …) of a layout is on a page `width` pixels wide, and the height of a
// value on it.
function panelOf(layout, name, width) {
  const { domain, range: [low, high], type } = layout[`yaxis${name.slice(1)}`], { l, r, t, b } = layout.margin;
  const plot = layout.height - t - b, top = t + (1 - domain[1]) * plot, height = (domain[1] - domain[0]) * plot;
  const level = type === "log" ? Math.log10 : Number;
  return { left: l, top, width: width - l - r, height, pixel: (value) => top + height * (1 - (level(value) - low) / (high - low)) };
}

class Lines {
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.rasters = new Map();
  }

  // Draw `found` ({x, y} by role, x in seconds, y NaN at breaks of a line) over [a, b) nanoseconds. `ticks` are those
  // of the time axis; `fine` is the number of screen pixels per page pixel; `width` is that of the page.
  paint({ figure, found, range: [a, b], ticks, width, fine }) {
    const { layout } = figure;
    this.fine = fine;
    const panels = new Map(figure.data.map((trace) => trace.yaxis ?? "y").map((name) => [name, panelOf(layout, name, width)]));
    const { left, width: across } = panels.get("y"), across1s = across * 1e9 / (b - a);
    const pixel = (seconds) => Math.min(width + BESIDE, Math.max(-BESIDE, left + (seconds - a / 1e9) * across1s));
    this.begin(width, layout.height);
    this.drawTime(layout, [...panels.values()], ticks, pixel, width);
    for (const trace of figure.data) {
      const points = found[trace.meta];
      if (points?.x.length) this.within(panels.get(trace.yaxis ?? "y"), (panel) => this.drawTrace(trace, points, pixel, panel));
    }
    this.drawReferences(layout.shapes, panels.get("y"));
  }

  begin(width, height) {
    const { canvas, pen, fine } = this;
    if (canvas.width !== Math.round(width * fine) || canvas.height !== Math.round(height * fine)) {
      canvas.width = Math.round(width * fine);
      canvas.height = Math.round(height * fine);
    }
    pen.setTransform(fine, 0, 0, fine, 0, 0);
    pen.clearRect(0, 0, width, height);
  }

  within(panel, draw) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(panel.left, panel.top, panel.width, panel.height);
    pen.clip();
    draw(panel);
    pen.restore();
  }

  drawTime(layout, panels, ticks, pixel, width) {
    const { pen } = this, { gridcolor, ticklen, tickfont } = layout.xaxis, bottom = layout.height - layout.margin.b;
    Object.assign(pen, { strokeStyle: gridcolor, lineWidth: 1, fillStyle: tickfont.color,
      font: `${tickfont.size}px ${layout.font.family}`, textAlign: "center", textBaseline: "top" });
    pen.beginPath();
    ticks.at.forEach((seconds, i) => {
      const x = Math.round(pixel(seconds)) + 0.5;
      for (const { top, height } of panels) {
        pen.moveTo(x, top);
        pen.lineTo(x, top + height);
      }
      pen.moveTo(x, bottom);
      pen.lineTo(x, bottom + ticklen);
      ticks.text[i].split("<br>").forEach((text, line) => {
        const half = pen.measureText(text).width / 2, middle = Math.max(half, Math.min(x, width - half));
        pen.fillText(text, middle, bottom + ticklen + 3 + line * 1.3 * tickfont.size);
      });
    });
    pen.stroke();
  }

  drawTrace(trace, points, pixel, panel) {
    const { pen } = this;
    if (trace.mode === "markers") return this.drawCrosses(trace, points, pixel, panel);
    if (isDense(points, panel.width)) return this.rasterOf(trace).draw(pen, this.fine, trace, points, pixel, panel);
    if (trace.fill) {
      pen.fillStyle = trace.fillcolor;
      pen.fill(this.path(trace, points, pixel, panel, true));
    }
    if (trace.line.width) {
      Object.assign(pen, { strokeStyle: trace.line.color, lineWidth: trace.line.width, lineJoin: "bevel" });
      pen.stroke(this.path(trace, points, pixel, panel, false));
    }
    if (trace.marker && points.x.length <= FEW_POINTS) this.drawDots(trace.marker, points, pixel, panel);
    return undefined;
  }

  rasterOf({ meta }) {
    if (!this.rasters.has(meta)) this.rasters.set(meta, new Raster());
    return this.rasters.get(meta);
  }

  // Returns the line through the points, broken at missing values; closed along zero if it will be filled.
  path(trace, { x, y }, pixel, panel, closed) {
    const path = new Path2D(), steps = trace.line.shape === "hv", zero = closed ? panel.pixel(0) : 0;
    let on = false, px = 0, py = 0;
    for (let i = 0; i < x.length; i++) {
      if (Number.isNaN(y[i])) {
        if (on && closed) path.lineTo(px, zero);
        on = false;
        continue;
      }
      px = pixel(x[i]);
      if (on && steps) path.lineTo(px, py);
      py = panel.pixel(y[i]);
      if (!on) path.moveTo(px, closed ? zero : py);
      if (on || closed) path.lineTo(px, py);
      on = true;
    }
    if (on && closed) path.lineTo(px, zero);
    return path;
  }

  drawDots({ color, size }, { x, y }, pixel, panel) {
    const { pen } = this;
    pen.fillStyle = color;
    x.forEach((seconds, i) => {
      if (Number.isNaN(y[i])) return;
      pen.beginPath();
      pen.arc(pixel(seconds), panel.pixel(y[i]), size / 2, 0, 2 * Math.PI);
      pen.fill();
    });
  }

  drawCrosses(trace, { x, y }, pixel, panel) {
    const { pen } = this;
    Object.assign(pen, { strokeStyle: trace.marker.line.color, lineWidth: trace.marker.line.width });
    pen.beginPath();
    x.forEach((seconds, i) => {
      const across = pixel(seconds), up = panel.pixel(y[i]);
      for (const way of [-CROSS, CROSS]) {
        pen.moveTo(across - CROSS, up - way);
        pen.lineTo(across + CROSS, up + way);
      }
    });
    pen.stroke();
  }

  // Draw the figure's reference lines, which would otherwise be hidden below the canvas.
  drawReferences(shapes, { left, width, pixel }) {
    const { pen } = this;
    for (const { y0, line } of shapes) {
      Object.assign(pen, { strokeStyle: line.color, lineWidth: line.width });
      pen.setLineDash(DASHES[line.dash]);
      pen.beginPath();
      pen.moveTo(left, Math.round(pixel(y0)) + 0.5);
      pen.lineTo(left + width, Math.round(pixel(y0)) + 0.5);
      pen.stroke();
    }
    pen.setLineDash([]);
  }
}

let lines;

// Posts "drawn" when the next drawing may come, and "shown" when this one has been handed to the screen.
onmessage = ({ data }) => {
  if (data.canvas) {
    lines = new Lines(data.canvas);
    return;
  }
  lines.paint(data);
  postMessage("drawn");
  requestAnimationFrame(() => postMessage("shown"));
};
