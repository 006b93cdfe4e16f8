// The page's interface to the thread that draws moving parts.

class Drawing {
  constructor(canvas, onTrouble) {
    this.canvas = canvas;
    this.waiting = { drawn: [], shown: [] };
    this.worker = new Worker("lines.js");
    this.worker.onmessage = ({ data }) => this.waiting[data].shift()();
    this.worker.onerror = ({ message }) => onTrouble(message ?? "the script that draws cannot be loaded");
    const offscreen = canvas.transferControlToOffscreen();
    this.worker.postMessage({ canvas: offscreen }, [offscreen]);
  }

  // Draw `found` ({x, y} by role) in the figure's styles. Returns promises {drawn, shown}: when the next drawing may
  // come, and when this one is visible.
  paint(figure, found, range, ticks, width) {
    const packed = {}, moved = [];
    for (const [role, { x, y }] of Object.entries(found)) {
      packed[role] = { x: Float64Array.from(x), y: Float64Array.from(y, (value) => value ?? NaN) };
      moved.push(packed[role].x.buffer, packed[role].y.buffer);
    }
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${figure.layout.height}px`;
    this.worker.postMessage({ figure, found: packed, range, ticks, width, fine: devicePixelRatio }, moved);
    return { drawn: this.when("drawn"), shown: this.when("shown") };
  }

  when(word) { return new Promise((done) => this.waiting[word].push(done)); }
}
