// The last minutes at a glance: each column a second; upwards the time within it, or the interfaces of the rack.

const HEAT_SECONDS = 300;

class Heat {
  constructor(place, onPick) {
    this.place = place;
    this.onPick = onPick;
    this.clear();
  }

  clear() {
    this.seconds = new Map();
    this.others = null;
    this.edge = 0;
  }

  async draw(figure, lane, light, palette) {
    this.lane = lane;
    const coloured = recolour(figure, light, palette);
    await Plotly.newPlot(this.place, coloured.data, coloured.layout, CONFIG);
    this.place.on("plotly_click", (event) => this.pick(event.points[0]));
    await this.refresh();
  }

  take(cells, edge) {
    this.edge = edge;
    this.rows = Math.max(1, Math.round(1e9 / cells.width));
    this.width = cells.width;
    for (let i = 0; i < cells.cells.length; i++) {
      const ns = cells.start + cells.cells[i] * cells.width, second = Math.floor(ns / 1e9);
      if (!this.seconds.has(second)) this.seconds.set(second, new Float64Array(this.rows));
      this.seconds.get(second)[Math.min(this.rows - 1, Math.floor((ns - second * 1e9) / cells.width))] = cells.largest[i] * (8e9 / cells.bin);
    }
    const last = Math.floor(edge / 1e9);
    for (const second of this.seconds.keys()) if (second < last - HEAT_SECONDS) this.seconds.delete(second);
  }

  // What to draw: seconds since the origin, the rows' names, and a row of numbers for each.
  matrix() {
    const last = Math.floor(this.edge / 1e9), x = [], factor = this.lane.factor;
    if (this.others) {
      const first = this.others.firstSecond - this.lane.originS;
      this.others.lanes[0]?.percent.forEach((_, i) => x.push(first + i));
      return { x, y: this.others.lanes.map((lane) => lane.name), z: this.others.lanes.map((lane) => lane.percent) };
    }
    const rows = this.rows ?? 100, z = Array.from({ length: rows }, () => new Array(HEAT_SECONDS + 1).fill(0));
    for (let i = 0; i <= HEAT_SECONDS; i++) {
      x.push(last - HEAT_SECONDS + i);
      const values = this.seconds.get(last - HEAT_SECONDS + i);
      if (values) for (let row = 0; row < rows; row++) z[row][i] = values[row] * factor;
    }
    return { x, y: z.map((_, row) => (row + 0.5) * 1000 / rows), z };
  }

  async refresh() {
    if (!this.lane || !this.place.data) return;
    const { x, y, z } = this.matrix(), width = this.place.clientWidth - 74;
    const axis = timeTicks(this.lane.originS, x[0] * 1e9, (x[x.length - 1] + 1) * 1e9, Math.max(50, width));
    const names = this.others !== null;
    const top = this.lane.link || names ? 100 : Math.max(1e-9, ...z.map((row) => row.reduce((p, q) => Math.max(p, q), 0)));
    await Plotly.update(this.place, { x: [x.map((second) => second + 0.5)], y: [y], z: [z], zmax: [top] }, {
      "xaxis.tickvals": axis.at, "xaxis.ticktext": axis.text, "xaxis.range": [x[0], x[x.length - 1] + 1],
      "yaxis.type": names ? "category" : "linear", "yaxis.range": names ? [-0.5, Math.max(0.5, y.length - 0.5)] : [0, 1000],
      "yaxis.title.text": names ? "" : "ms in the second", "yaxis.tickvals": names ? (width > 500 ? y : []) : [0, 250, 500, 750, 1000],
      "yaxis.ticktext": names ? (width > 500 ? y : []) : ["0", "250", "500", "750", "1000"],
      "margin.l": names && width > 500 ? 190 : 64,
    });
  }

  pick(point) {
    const second = Math.floor(point.x);
    if (this.others) {
      const lane = this.others.lanes[point.pointNumber[0]];
      return this.onPick(second * 1e9, 1e9, lane.id);
    }
    return this.onPick(second * 1e9 + point.pointNumber[0] * this.width, this.width, null);
  }
}
