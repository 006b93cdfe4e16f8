// Makes the page interactive: sections, tables, figures, and the colours of the reader's system.

const $ = (selector, root = document) => [...root.querySelectorAll(selector)];
const dark = matchMedia("(prefers-color-scheme: dark)");

let facts, palette, shownLane;
const sections = [];

class Section {
  constructor(root, lane) {
    this.root = root;
    this.lane = lane;
    this.drawn = null;
    this.timeline = lane.base.cells.length ? new Timeline(root, lane) : null;
    this.table = root.querySelector("table.bursts");
    this.wire();
    if (lane.bursts.length) this.choose(lane.bursts[0]);
  }

  wire() {
    const { root, timeline, lane } = this;
    if (this.table) {
      this.table.tBodies[0].addEventListener("click", (event) => {
        const row = event.target.closest("tr");
        if (row && !String(getSelection())) this.choose(lane.bursts.find((burst) => burst.number === Number(row.dataset.burst)));
      });
      root.querySelector("[data-do=copy]").addEventListener("click", async (event) => {
        const done = await copy(asText(this.table));
        event.target.nextElementSibling.textContent = done ? "Copied." : "The browser does not allow it.";
      });
    }
    if (!timeline) return;
    timeline.onPick = (burst) => this.choose(burst);
    $(".tools [data-do]", root).forEach((button) => button.addEventListener("click", () => this.move(button.dataset.do)));
    this.offer("latency", (path) => { timeline.path = path; });
    this.offer("queues", (queue) => { timeline.queue = queue; });
    $("[data-do=previous], [data-do=next]", root).forEach((button) => { button.hidden = !lane.bursts.length; });
  }

  offer(kind, take) {
    const label = this.root.querySelector(`[data-choose=${kind}]`), select = label.querySelector("select");
    label.hidden = !this.lane[kind].length;
    this.lane[kind].forEach((entry, i) => select.append(new Option(seen(entry.name), i)));
    select.disabled = this.lane[kind].length < 2;
    select.addEventListener("change", () => {
      take(this.lane[kind][Number(select.value)]);
      this.timeline.refresh();
    });
  }

  move(what) {
    if (what !== "previous" && what !== "next") return this.timeline.do(what);
    const burst = this.timeline.neighbour(what === "next");
    if (!burst) return undefined;
    this.choose(burst);
    return this.timeline.showBurst(burst);
  }

  choose(burst) {
    if (!burst) return;
    for (const row of this.table.tBodies[0].rows) {
      const on = Number(row.dataset.burst) === burst.number;
      row.classList.toggle("chosen", on);
      row.querySelector("button").setAttribute("aria-pressed", on);
    }
    showSenders(this.root.querySelector(".fanin"), burst, () => {
      this.timeline.showBurst(burst);
      this.root.querySelector(".over-time").scrollIntoView({ block: "start" });
    });
    if (this.timeline) {
      this.timeline.chosen = burst;
      if (this.drawn) this.timeline.refresh();
    }
  }

  // Draw in the current colours, unless that has been done.
  async draw() {
    if (this.root.hidden || this.drawn === palette) return;
    this.drawn = palette;
    if (this.timeline) await this.timeline.draw(facts.light, palette);
    for (const place of $("[data-distribution]", this.root)) {
      const figure = recolour(this.lane.distributions[place.dataset.distribution], facts.light, palette);
      keepTouches(place, figure.layout);
      await Plotly.newPlot(place, figure.data, figure.layout, CONFIG);
    }
  }
}

const drawAll = () => Promise.all([...sections.map((section) => section.draw()), drawPaths(facts, palette)]);

function showLane() {
  const wanted = sections.find((section) => `#${section.root.id}` === location.hash) ?? shownLane ?? sections[0];
  if (!wanted) return drawAll();
  shownLane = wanted;
  sections.forEach((section) => { section.root.hidden = section !== wanted; });
  $(".lanes a").forEach((link) => {
    if (link.hash === `#${wanted.root.id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
  return drawAll();
}

function useColours(colours) {
  palette = colours;
  return drawAll();
}

// Draws in another width, and in COLOURS.
function redraw(colours) {
  sections.forEach((section) => { section.drawn = null; });
  return useColours(colours);
}

async function loadPlotly() {
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(await inflate("plotly"));
  document.head.append(script);
}

async function start() {
  $("table.bursts, table.lanes").forEach(makeSortable);
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack them");
  const [unpacked, arrays] = await Promise.all([inflate("facts"), inflate("arrays")]);
  facts = JSON.parse(new TextDecoder().decode(unpacked));
  palette = dark.matches ? facts.dark : facts.light;
  await loadPlotly();
  $("section.lane").forEach((root, i) => sections.push(new Section(root, unpackLane(arrays, facts.lanes[i]))));
  dark.addEventListener("change", () => useColours(dark.matches ? facts.dark : facts.light));
  redrawForPaper(() => redraw(facts.light), () => redraw(dark.matches ? facts.dark : facts.light));
  addEventListener("hashchange", showLane);
  await showLane();
}

start().then(() => { document.documentElement.dataset.ready = "true"; }, (error) => {
  const notice = document.getElementById("trouble");
  notice.textContent = `The figures cannot be drawn: ${error.message}. The numbers and tables are complete without them.`;
  notice.hidden = false;
});
