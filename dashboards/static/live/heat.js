// The last minutes at a glance: each column is a second; the vertical axis is the time within it, or the interfaces of
// the rack. The axes are plotly's. The cells are pixels of a canvas over them, which take a hundredth of plotly's time.

const HEAT_SECONDS = 300;
const NAMES_FROM = 575; // pixels: a narrower figure has no names beside its rows

class Heat {
  constructor(place, canvas, onPick, onTop = () => {}) {
    Object.assign(this, { place, canvas, onPick, onTop, pen: canvas.getContext("2d") });
    this.clear();
  }

  clear() {
    this.seconds = new Map();
    this.others = null;
    this.edge = 0;
  }

  async draw(figure, lane, light, palette) {
    this.lane = lane;
    this.figure = recolour(figure, light, palette);
    this.words = scaleWords(this.figure.scale);
    this.axes = null;
    // A copy of the layout, because plotly changes it.
    await Plotly.newPlot(this.place, [], structuredClone(this.figure.layout), CONFIG);
    this.place.onclick = (event) => this.pick(event);
    this.place.onkeydown = (event) => this.key(event);
    this.place.onblur = () => this.choose(null);
    await this.refresh();
  }

  // A message replaces everything from its start on. Recorded time without a cell was idle; other time is unknown.
  take(message, edge) {
    this.edge = edge;
    this.width = message.width;
    this.rows = Math.ceil(1e9 / message.width);
    this.forget(message.from);
    message.coverage.start.forEach((start, i) => {
      for (let ns = start; ns < message.coverage.end[i]; ns += message.width) this.put(ns, 0);
    });
    message.cells.forEach((cell, i) => this.put(message.start + cell * message.width, message.largest[i] * (8e9 / message.bin)));
  }

  // Remove the columns from `ns` on, and those that are too old to be shown.
  forget(ns) {
    const from = Math.floor(ns / 1e9), oldest = Math.floor(this.edge / 1e9) - HEAT_SECONDS;
    for (const [second, column] of this.seconds) {
      if (second > from || second < oldest) this.seconds.delete(second);
      else if (second === from) column.fill(NaN, Math.floor((ns - from * 1e9) / this.width));
    }
  }

  // The last cell that begins in a second gets the rest of its column, because not every width divides a second.
  put(ns, value) {
    const second = Math.floor(ns / 1e9), at = ns - second * 1e9, row = Math.floor(at / this.width);
    if (!this.seconds.has(second)) this.seconds.set(second, new Float64Array(this.rows).fill(NaN));
    this.seconds.get(second).fill(value, row, at + this.width < 1e9 ? row + 1 : this.rows);
  }

  // Returns what to draw: the first second since the origin, the number of seconds, the names of the rows if they have
  // any, and a row of numbers for each, from the bottom; NaN or null if unknown.
  matrix() {
    if (this.others) {
      const { firstSecond, lanes } = this.others;
      return { first: firstSecond - this.lane.originS, seconds: lanes[0]?.percent.length ?? 0, names: lanes.map((lane) => lane.name), rows: lanes.map((lane) => lane.percent) };
    }
    const seconds = HEAT_SECONDS + 1, first = Math.floor(this.edge / 1e9) - HEAT_SECONDS;
    const rows = Array.from({ length: this.rows ?? 100 }, () => new Float64Array(seconds).fill(NaN));
    for (let i = 0; i < seconds; i++) this.seconds.get(first + i)?.forEach((value, row) => { rows[row][i] = value * this.lane.factor; });
    return { first, seconds, names: null, rows };
  }

  async refresh() {
    const width = this.place.clientWidth;
    if (!this.lane || !this.figure || !width) return;
    const { seconds, names, rows } = this.shown = this.matrix();
    const { margin, yaxis, font } = this.figure.layout, named = names !== null && width >= NAMES_FROM;
    const beside = named ? fitting(names, width / 2, `${yaxis.tickfont.size}px ${font.family}`) : { names: [], width: 0 };
    const left = Math.max(margin.l, beside.width + 14);
    const top = this.topOf(rows, names);
    this.onTop(this.lane.link || names ? "line rate" : `${threeDigits(top)} ${this.lane.suffix.trim()}, the fullest`);
    this.paint(rows, seconds, top || 1, left);
    this.showChosen();
    const axes = { ...timesAcross(seconds), ...(names === null ? timesUp : namesUp(beside.names, Math.max(1, rows.length))), "margin.l": left };
    if (JSON.stringify(axes) === this.axes) return;
    this.axes = JSON.stringify(axes);
    await Plotly.relayout(this.place, axes);
  }

  // Returns the value at the end of the scale: line rate, or the fullest cell if the link speed is not known.
  topOf(rows, names) {
    return this.lane.link || names ? 100 : rows.reduce((most, row) => row.reduce((p, q) => (q > p ? q : p), most), 0);
  }

  // Draw a pixel for each cell; the page scales the canvas to its place between the axes. Unknown cells stay empty.
  paint(rows, seconds, top, left) {
    const { canvas, pen, words } = this, { height, margin: { r, t, b } } = this.figure.layout;
    Object.assign(canvas.style, { left: `${left}px`, top: `${t}px`, width: `calc(100% - ${left + r}px)`, height: `${height - t - b}px` });
    if (!rows.length || !seconds) return pen.clearRect(0, 0, canvas.width, canvas.height);
    if (canvas.width !== seconds || canvas.height !== rows.length) Object.assign(canvas, { width: seconds, height: rows.length });
    const image = new ImageData(seconds, rows.length), pixels = new Uint32Array(image.data.buffer);
    rows.forEach((row, up) => row.forEach((value, i) => {
      if (Number.isFinite(value)) pixels[(rows.length - 1 - up) * seconds + i] = words[Math.round(255 * Math.min(1, value / top))];
    }));
    return pen.putImageData(image, 0, 0);
  }

  pick(event) {
    const { left, top, width, height } = this.canvas.getBoundingClientRect(), { first, seconds, rows } = this.shown;
    const column = Math.floor(seconds * (event.clientX - left) / width), row = Math.floor(rows.length * (1 - (event.clientY - top) / height));
    if (column < 0 || column >= seconds || !rows[row]) return undefined;
    return this.go([first + column, row]);
  }

  // Go to the cell [second, row].
  go([second, row]) {
    if (this.others) return this.onPick(second * 1e9, 1e9, this.others.lanes[row].id);
    return this.onPick(second * 1e9 + row * this.width, this.width, null);
  }

  // The arrow keys choose a cell, Enter goes there.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Enter" && this.chosen) this.go(this.chosen);
    else if (move && this.shown?.rows.length && this.shown.seconds) {
      const { first, seconds, rows } = this.shown, [second, row] = this.chosen ?? [first + seconds - 1 - move[0], -move[1]];
      const within = (value, most) => Math.min(Math.max(value, 0), most);
      this.choose([first + within(second + move[0] - first, seconds - 1), within(row + move[1], rows.length - 1)]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  choose(cell) {
    this.chosen = cell;
    this.showChosen();
  }

  // Frame the chosen cell, and state its value in words.
  showChosen() {
    const { canvas } = this, stage = this.place.parentElement, frame = stage.querySelector(".cell"), read = stage.querySelector(".cell-read");
    const column = this.chosen && this.chosen[0] - this.shown.first, value = this.chosen && this.shown.rows[this.chosen[1]]?.[column];
    frame.hidden = read.hidden = !this.chosen || column < 0 || value === undefined;
    if (frame.hidden) return;
    const { seconds, rows, names } = this.shown, wide = canvas.clientWidth / seconds, high = canvas.clientHeight / rows.length;
    Object.assign(frame.style, { left: `${canvas.offsetLeft + column * wide - 3}px`, width: `${wide + 2}px`,
      top: `${canvas.offsetTop + (rows.length - 1 - this.chosen[1]) * high - 3}px`, height: `${high + 2}px` });
    const ms = names ? 0 : this.chosen[1] * this.width, at = clock(this.lane.originS, this.chosen[0] * 1e9 + ms, names ? 0 : 3);
    const unit = names ? "%" : this.lane.suffix.trim(), amount = Number.isFinite(value) && value !== null ? `fullest bin ${threeDigits(value)} ${unit}` : "not recorded";
    read.textContent = [...(names ? [seen(names[this.chosen[1]])] : []), `${at.minute}:${at.second}`, amount].join(" · ");
  }
}

// The horizontal axis is the time before the newest second, so that a message changes only cells.
const timesAcross = (seconds) => {
  const minutes = Array.from({ length: Math.floor((seconds - 1) / 60) }, (_, i) => i + 1);
  return { "xaxis.range": [0, seconds], "xaxis.tickvals": minutes.map((ago) => seconds - 0.5 - 60 * ago), "xaxis.ticktext": minutes.map((ago) => `−${ago} min`) };
};

const timesUp = {
  "yaxis.range": [0, 1000], "yaxis.tickvals": [0, 250, 500, 750, 1000], "yaxis.ticktext": ["0", "250", "500", "750", "1000"],
  "yaxis.title.text": "ms in the second",
};

const namesUp = (names, rows) => ({
  "yaxis.range": [0, rows], "yaxis.tickvals": names.map((_, i) => i + 0.5), "yaxis.ticktext": names.map(label), "yaxis.title.text": "",
});

// Returns the width of a text in pixels.
function textWidth(text, font) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.font = font;
  return Math.ceil(pen.measureText(text).width);
}

// Returns the names as they fit into `room` pixels, and the width of the widest. What distinguishes names may be at
// either end, so a name that is too long lacks its middle.
function fitting(names, room, font) {
  const fit = (name) => {
    const letters = [...seen(name)];
    let width = textWidth(letters.join(""), font);
    while (width > room && letters.length > 2) {
      const kept = Math.max(2, Math.min(letters.length - 1, Math.floor(letters.length * room / width)));
      letters.splice(Math.ceil(kept / 2), letters.length - kept + 1, "…");
      width = textWidth(letters.join(""), font);
    }
    return [letters.join(""), width];
  };
  const found = names.map(fit);
  return { names: found.map(([name]) => name), width: Math.max(0, ...found.map(([, width]) => width)) };
}

// Returns 256 colours of a scale [[share, colour], …], as four bytes of an image in memory.
function scaleWords(scale) {
  const pen = new OffscreenCanvas(256, 1).getContext("2d"), gradient = pen.createLinearGradient(0.5, 0, 255.5, 0);
  for (const [share, colour] of scale) gradient.addColorStop(share, colour);
  pen.fillStyle = gradient;
  pen.fillRect(0, 0, 256, 1);
  return new Uint32Array(pen.getImageData(0, 0, 256, 1).data.buffer);
}
