// Draws lines with a point for every other pixel or more, pixel by pixel: without a GPU, outlines with that many
// corners take several times as long. In each column of pixels, a line spans from its highest to its lowest value
// there.

const isDense = (points, across) => 2 * points.x.length > across;

// For one trace: the content of a canvas is copied if the canvas is rewritten before that content has been drawn.
class Raster {
  constructor() {
    this.pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    this.words = new Map();
  }

  // Draw a trace's line, one screen pixel thick, and the area between it and zero, into a panel. `fine` is the number
  // of screen pixels per page pixel; `across` maps a second to its position.
  draw(pen, fine, trace, points, across, panel) {
    const left = Math.round(panel.left * fine), top = Math.round(panel.top * fine);
    this.begin(Math.ceil(panel.width * fine), Math.ceil(panel.height * fine));
    this.follow(points, trace.line.shape === "hv", (seconds) => fine * across(seconds) - left, (value) => fine * panel.pixel(value) - top);
    const fill = trace.fill ? this.word(trace.fillcolor) : 0;
    this.write(trace.line.width ? this.word(trace.line.color) : fill, fill, fill ? Math.round(fine * panel.pixel(0)) - top : 0);
    this.pen.putImageData(this.image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.pen.canvas, left / fine, top / fine, this.width / fine, this.height / fine);
  }

  begin(width, height) {
    if (width !== this.width || height !== this.height) {
      Object.assign(this, { width, height, image: new ImageData(width, height) });
      Object.assign(this.pen.canvas, { width, height });
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.highest = new Int32Array(width);
      this.lowest = new Int32Array(width);
    }
    this.highest.fill(height);
    this.lowest.fill(-1);
  }

  // Follow the line, by its steps or straight from point to point, broken at missing values.
  follow({ x, y }, steps, across, up) {
    let on = false, px = 0, py = 0;
    for (let i = 0; i < x.length; i++) {
      if (Number.isNaN(y[i])) {
        on = false;
        continue;
      }
      const nx = across(x[i]), ny = up(y[i]);
      if (on) {
        this.reach(px, py, nx, steps ? py : ny);
        if (steps) this.reach(nx, py, nx, ny);
      }
      px = nx;
      py = ny;
      on = true;
    }
  }

  // Add a straight piece, from left to right.
  reach(ax, ay, bx, by) {
    const { highest, lowest } = this, slope = bx > ax ? (by - ay) / (bx - ax) : 0;
    const from = Math.max(0, Math.floor(ax)), to = Math.min(this.width - 1, Math.floor(bx));
    for (let column = from; column <= to; column++) {
      const p = column > ax ? ay + slope * (column - ax) : ay, q = column + 1 < bx ? ay + slope * (column + 1 - ax) : by;
      highest[column] = Math.min(highest[column], Math.floor(Math.min(p, q)));
      lowest[column] = Math.max(lowest[column], Math.floor(Math.max(p, q)));
    }
  }

  write(line, fill, zero) {
    const { width, height, pixels, highest, lowest } = this;
    pixels.fill(0);
    for (let column = 0; column < width; column++) {
      const low = Math.min(lowest[column], height - 1), end = Math.min(zero, height);
      let row = Math.max(0, highest[column]);
      for (; row <= low; row++) pixels[row * width + column] = line;
      for (; low >= 0 && row < end; row++) pixels[row * width + column] = fill;
    }
  }

  // Returns a colour as four bytes of an image in memory.
  word(colour) {
    if (!this.words.has(colour)) {
      const pen = new OffscreenCanvas(1, 1).getContext("2d");
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      this.words.set(colour, new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0]);
    }
    return this.words.get(colour);
  }
}
