// The live view: connects the messages of the server and the actions of the reader with the parts of the page.

const $ = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const MOST_BURSTS = 500; // of a moment that the server sends: the latest
const RETRY_MS = [250, 500, 1000, 2000];

class LiveView {
  constructor() {
    this.lanes = [];
    this.span = 10e9;
    this.range = null; // the time that the reader chose; null while the figure follows
    this.tape = this.still = this.lane = null;
    this.tries = 0;
    this.troubles = { page: "", push: "", moment: "", drawing: "" };
    this.lines = new Drawing(one(".lines"), (trouble) => {
      this.say(`Nothing can be drawn: ${trouble}`, "drawing");
    });
    this.heat = new Heat(one(".heat"), one(".cells"), (start, width, laneId) => this.jump(start, width, laneId),
      (top) => { one("#heat-top").textContent = top; });
    this.bursts = new BurstList(one(".bursts"), (burst) => this.mark(burst), (burst) => this.showBurst(burst));
  }

  async start() {
    const link = readLink(location.hash);
    if (link.span) this.span = Math.min(300e9, Math.max(1e6, link.span * 1e9));
    this.wire();
    await this.begin(link);
  }

  async begin(link) {
    await this.loadLanes();
    const wanted = this.lanes.find((lane) => lane.id === link.lane) ?? this.busiest();
    if (!wanted) {
      this.say("Nothing is recorded in this store yet: this page begins when something is.");
      setTimeout(() => this.begin(link).catch((error) => this.say(`This page cannot begin: ${error.message}`)), 1000);
      return;
    }
    this.say("");
    this.originS = Number(BigInt(wanted.edge) / 86_400_000_000_000n) * 86_400;
    await this.choose(wanted.id, this.linked(link));
  }

  // Returns the lane to show first: recorded lanes come before others, then incoming ones, then the newest edge.
  busiest() {
    const order = (lane) => (lane.recording ? 1 : 0) + (lane.direction === "out" ? 0 : 0.5);
    return [...this.lanes].sort((p, q) => order(q) - order(p) || (BigInt(q.edge) > BigInt(p.edge) ? 1 : -1))[0];
  }

  linked(link) {
    const a = sinceOrigin(this.originS, link.from), b = sinceOrigin(this.originS, link.to);
    return a !== null && b !== null && a < b ? [a, b] : null;
  }

  async ask(path) {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error((await answer.text()).trim() || `the server answers ${answer.status}`);
    return answer;
  }

  async loadLanes() {
    this.lanes = await (await this.ask("lanes")).json();
    const racks = [...new Set(this.lanes.map((lane) => lane.rack))], rack = one("#rack");
    rack.closest("label").hidden = racks.length < 2;
    if (racks.join("\n") !== [...rack.options].slice(1).map((option) => option.value).join("\n")) {
      rack.replaceChildren(new Option("all racks", ""), ...racks.map((name) => new Option(seen(name), name)));
    }
    this.offerLanes();
  }

  offerLanes() {
    const rack = one("#rack").value, select = one("#lane");
    const offered = this.lanes.filter((lane) => !rack || lane.rack === rack || lane.id === this.lane?.id);
    const key = offered.map((lane) => `${lane.id} ${lane.name}`).join("\n");
    if (select.dataset.key !== key) {
      select.replaceChildren(...offered.map((lane) => new Option(seen(lane.name), lane.id)));
      select.dataset.key = key;
    }
    if (this.lane) select.value = this.lane.id;
    this.showWholeName();
  }

  // A closed list cuts a long name at its end, which may be all that distinguishes it.
  showWholeName() {
    const select = one("#lane"), whole = one("#lane-name"), name = select.selectedOptions[0]?.textContent ?? "";
    const { fontSize, fontFamily, paddingLeft, paddingRight } = getComputedStyle(select), arrow = 24;
    whole.textContent = name;
    whole.hidden = textWidth(name, `${fontSize} ${fontFamily}`) + parseFloat(paddingLeft) + parseFloat(paddingRight) + arrow <= select.clientWidth;
  }

  async choose(id, range = null) {
    const facts = await (await this.ask(`lane?lane=${encodeURIComponent(id)}`)).json();
    this.lane = { ...facts, originS: this.originS };
    this.tape = this.still = null;
    this.parts = null;
    this.range = range;
    this.timeline = new LiveTimeline(one(".over-time"), this.lane, this.lines, {
      onMove: (a, b) => this.stand(a, b), onFollow: () => this.follow(), onShown: (edge) => this.tellShown(edge) });
    this.timeline.onPick = (burst) => this.bursts.choose(burst);
    this.heat.clear();
    this.bursts.clear(this.lane.link);
    this.offerLanes();
    document.title = `${one("#lane").selectedOptions[0]?.textContent ?? ""}: mburst live`;
    this.heat.lane = this.lane;
    if (range) this.stand(...range);
    this.link();
    if (this.socket?.readyState === WebSocket.OPEN) this.wish();
    else if (!this.socket) this.connect();
  }

  connect() {
    const socket = this.socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { this.tries = 0; this.wish(); };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") return this.say(JSON.parse(event.data).trouble, "push");
      return this.take(unpackMessage(event.data));
    };
    socket.onclose = () => this.away();
  }

  // The server is gone: the drawing stays, and the connection is retried. A page that reloads would need its token.
  away() {
    one("#state").textContent = "No connection: trying again";
    document.documentElement.dataset.connected = "false";
    setTimeout(() => this.connect(), RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)]);
  }

  wish() {
    this.steps = this.timeline.steps();
    this.socket.send(JSON.stringify({ lane: this.lane.id, span: String(this.span), steps: this.steps, origin: `${this.originS}000000000` }));
  }

  take(message) {
    if (message.lane !== this.lane.id) return;
    this.say("", "push");
    document.documentElement.dataset.connected = "true";
    if (message.kind === "start" || !this.tape) {
      if (message.kind !== "start") return;
      this.tape = new Tape(message, this.span);
    } else this.tape.apply(message);
    this.heat.take(message.heat, message.edge);
    this.tellStatus(message.status);
    this.bursts.add(this.tape.fresh);
    if (!this.range) this.request();
    this.soonHeat();
  }

  // Draw at the next frame of the browser: several messages share one drawing.
  request() {
    if (this.requested) return;
    this.requested = true;
    requestAnimationFrame(() => { this.requested = false; this.draw(); });
  }

  scene() {
    const from = this.range && this.still && this.still.start <= this.range[0] && this.still.end >= this.range[1] ? this.still : this.tape ?? this.still;
    return from && { ...this.lane, edge: this.tape?.edge ?? Infinity, start: -Infinity, end: Infinity, detail: null, detailCells: [], marks: null,
      coverage: from.coverage, losing: from.losing, base: from.base, seconds: from.seconds,
      latency: from.latency, queues: from.queues, bursts: from.bursts };
  }

  async draw() {
    const scene = this.scene();
    if (!scene) return;
    const range = this.range ?? [this.tape.edge - this.span, this.tape.edge];
    if (this.steps !== this.timeline.steps() && this.socket?.readyState === WebSocket.OPEN) this.wish();
    this.timeline.put(scene, range);
    const parts = 2 * (scene.latency.length > 0 || this.parts >= 2) + (scene.queues.length > 0 || this.parts % 2 === 1);
    if (parts !== this.parts) await this.build(parts);
    else await this.timeline.refresh();
    this.offer(scene);
    this.tellMeasure();
    this.tellContrast();
    this.timeline.shown?.then(() => { document.documentElement.dataset.ready = "true"; });
  }

  // The drawing is visible, up to `edge`.
  tellShown(edge) {
    const { dataset } = document.documentElement;
    dataset.drawn = String(Number(dataset.drawn ?? 0) + 1);
    window.dispatchEvent(new CustomEvent("mburst-drawn", { detail: { edge } }));
  }

  // Build the figure with the panels that have data, and the heatmap, because they share their colours.
  async build(parts) {
    this.parts = parts;
    this.palette = isDark() ? this.lane.dark : this.lane.light;
    this.timeline.empty = this.lane.figures[parts];
    await this.timeline.draw(this.lane.light, this.palette);
    await this.heat.draw(this.lane.heat, this.lane, this.lane.light, this.palette);
    $("[data-needs=latency]").forEach((entry) => { entry.hidden = parts < 2; });
    $("[data-needs=queue]").forEach((entry) => { entry.hidden = parts % 2 === 0; });
    $("[data-needs=link]").forEach((entry) => { entry.hidden = !this.lane.link; });
  }

  offer(scene) {
    for (const kind of ["latency", "queues"]) {
      const label = one(`[data-choose=${kind}]`), select = label.querySelector("select");
      const names = scene[kind].map((entry) => entry.name), key = names.join("\n");
      label.hidden = names.length < 2;
      if (select.dataset.key === key) continue;
      select.replaceChildren(...names.map((name) => new Option(seen(name), name)));
      select.dataset.key = key;
      if (this.timeline.paths[kind]) select.value = this.timeline.paths[kind];
    }
  }

  // Stop at [a, b), and request all data for it, at the resolution of the screen.
  stand(a, b) {
    const edge = this.tape?.edge ?? Infinity;
    const span = Math.min(b - a, 86_400e9);
    const from = Math.min(a, edge - span / 2);
    this.range = [from, from + span];
    this.shown(false);
    this.request();
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.fetchStill(), 60);
    this.link();
  }

  async fetchStill() {
    const [a, b] = this.range, span = b - a, laneId = this.lane.id;
    const from = absolute(this.originS, a - span / 2), to = absolute(this.originS, b + span / 2);
    const buckets = 2 * this.timeline.steps();
    try {
      const answer = await this.ask(`moment?lane=${encodeURIComponent(laneId)}&from=${from}&to=${to}&buckets=${buckets}&origin=${this.originS}000000000`);
      const still = unpackMessage(await answer.arrayBuffer());
      if (!this.range || this.lane.id !== laneId || still.start > this.range[0] || still.end < this.range[1]) return;
      this.still = still;
      this.bursts.add(still.bursts);
      this.request();
      this.say("", "moment");
    } catch (error) {
      this.say(`This moment cannot be fetched: ${error.message}`, "moment");
    }
  }

  follow() {
    this.range = this.still = null;
    this.say("", "moment");
    this.shown(true);
    this.link();
    this.request();
  }

  shown(following) {
    const button = one("[data-do=pause]");
    button.textContent = following ? "Pause" : "Follow";
    one("#state").dataset.following = following;
  }

  link() { writeLink(this.originS, this.lane.id, this.range, this.span); }

  setSpan(span) {
    this.span = span;
    one("#span").value = String(span / 1e9);
    this.tape = null;
    this.follow();
    if (this.socket?.readyState === WebSocket.OPEN) this.wish();
  }

  current() { return this.range ?? [this.tape.edge - this.span, this.tape.edge]; }

  do(what) {
    if (!this.tape && !this.range) return undefined;
    const [a, b] = this.current(), span = b - a;
    if (what === "pause") return this.range ? this.follow() : this.stand(a, b);
    const moves = { in: [a + span / 4, b - span / 4], out: [a - span / 2, b + span / 2], left: [a - span / 2, b - span / 2], right: [a + span / 2, b + span / 2] };
    if (what === "right" && this.tape && moves.right[0] >= this.tape.edge) return this.follow();
    if (moves[what]) return this.timeline.show(...moves[what]);
    return this.toNeighbour(what === "next");
  }

  toNeighbour(later) {
    const burst = this.timeline.neighbour(later) ?? this.known(later);
    if (!burst) return;
    this.bursts.choose(burst);
    this.showBurst(burst);
  }

  known(later) {
    const [a, b] = this.current(), rows = this.bursts.rows.map((row) => row.burst);
    return later ? rows.findLast((burst) => burst.start > b) : rows.find((burst) => burst.end < a);
  }

  showBurst(burst) {
    const around = 0.75 * (burst.end - burst.start);
    this.timeline.show(burst.start - around, burst.end + around);
  }

  async jump(start, width, laneId) {
    const around = Math.max(width, 20 * this.lane.bin);
    if (laneId && laneId !== this.lane.id) return this.choose(laneId, [start, start + width]);
    return this.stand(start - around, start + width + around);
  }

  mark(burst) {
    this.timeline.chosen = burst;
    this.request();
  }

  // The state that has to be visible whatever is drawn.
  tellStatus(status) {
    const edge = clock(this.originS, this.tape.edge, 1);
    one("#state").textContent = status.recording ? "Recording" : "Not recording";
    one("#state").dataset.recording = status.recording;
    one("#edge").textContent = `${edge.day} ${edge.minute}:${edge.second} UTC`;
    this.above = status.above;
    one("#lost-word").textContent = status.isPort ? "Samples missing" : "Lost while recording";
    one("#loss-word").textContent = status.isPort ? "samples missing" : "packets lost";
    const scope = status.dropped && status.scope ? ` ${status.scope}` : "";
    const packets = `${status.dropped.toLocaleString("en")} packet${status.dropped === 1 ? "" : "s"}${scope}`;
    const parts = status.isPort ? [] : status.droppedIsWhole ? [packets] : status.dropped ? [`at least ${packets}`] : [];
    if (status.losing) parts.push(`some in ${duration(status.losing)} of the last 5 min`);
    one("#dropped").textContent = parts.join(", ") || "none in the last 5 min";
    one("#dropped").classList.toggle("bad", status.dropped > 0 || status.losing > 0);
    one("#stamps").textContent = status.stamps.length ? status.stamps.join(", ") : seen(status.clock);
    const troubles = [...status.trouble, ...status.notes];
    one("#notes").textContent = troubles.map(seen).join(" · ");
    one("#notes").hidden = !troubles.length;
  }

  // The measure of the drawn probes, and the source of their timestamps.
  tellMeasure() {
    const { path } = this.timeline;
    one("#measure").textContent = path ? `latency: ${path.measure || "not measured"}${path.stamps ? `, stamps ${seen(path.stamps)}` : ""}` : "";
  }

  tellContrast() {
    const { view, seconds } = this.timeline, unit = this.lane.suffix.trim();
    if (!view) return; // the first drawing is under way, or the page has no width yet
    const most = (values) => values.reduce((p, q) => Math.max(p, q), 0) * this.lane.factor;
    const shown = (value) => `${threeDigits(value)} ${unit}`;
    const fullest = view.start.length ? shown(most(view.largest)) : "–";
    const second = seconds.start.length ? shown(most(seconds.largest)) : "–";
    one("#fullest").textContent = fullest;
    one("#second").textContent = second;
    one("#fullest-word").textContent = `Fullest bin of ${duration(this.lane.bin)} in view`;
    one("#above").textContent = this.lane.link && most(view.largest) > 100 ? this.above : "";
    const whole = seconds.start.length ? `, the fullest second ${second}` : "";
    this.tellBursts(`the fullest bin of ${duration(this.lane.bin)} reads ${fullest}${whole}`);
  }

  // The sentence above the figure: a summary of the visible time.
  tellBursts(fullest) {
    const [a, b] = this.current();
    const found = this.timeline.lane.bursts.filter((burst) => burst.end > a && burst.start < b);
    const longest = found.length ? duration(found.reduce((p, burst) => Math.max(p, burst.end - burst.start), 0)) : "";
    const more = found.length < MOST_BURSTS ? "" : " or more";
    const many = `${found.length.toLocaleString("en")}${more}`, lasting = found.length > 1 ? `up to ${longest}` : longest;
    const bursts = `${many} burst${found.length === 1 ? "" : "s"}${longest && ` of ${lasting}`}`;
    one("#bursts-in-view").textContent = many;
    one("#longest").textContent = lasting;
    one("#answer").textContent = `${duration(b - a)} in view: ${this.lane.link ? `${bursts}; ` : ""}${fullest}.`;
  }

  // State a trouble, or with '' that what had it (the page, its drawing, a push, a moment) works again.
  say(text, of = "page") {
    this.troubles[of] = text;
    const notice = one("#trouble"), message = Object.values(this.troubles).find((trouble) => trouble) ?? "";
    notice.textContent = seen(message);
    notice.hidden = !message;
  }

  // The heatmap changes once a second.
  soonHeat() {
    if (this.heating) return;
    this.heating = setTimeout(async () => {
      this.heating = null;
      if (one("#by").value === "interface") {
        const rack = one("#rack").value;
        const width = this.lane?.id;
        this.heat.others = await (await this.ask(`overview?rack=${encodeURIComponent(rack)}&seconds=${HEAT_SECONDS}`)).json();
        if (width !== this.lane?.id) return;
      } else this.heat.others = null;
      await this.heat.refresh();
    }, 1000);
  }

  wire() {
    $("[data-do]").forEach((button) => button.addEventListener("click", () => this.do(button.dataset.do)));
    one("#rack").addEventListener("change", () => { this.offerLanes(); const { value } = one("#lane"); if (value && value !== this.lane?.id) this.choose(value); });
    one("#lane").addEventListener("change", (event) => this.choose(event.target.value));
    one("#span").addEventListener("change", (event) => this.setSpan(Number(event.target.value) * 1e9));
    one("#by").addEventListener("change", () => { clearTimeout(this.heating); this.heating = null; this.soonHeat(); });
    one("#copy").addEventListener("click", async (event) => {
      const done = await copyText(location.href);
      event.target.textContent = done ? "Copied" : "Copy the address bar";
      setTimeout(() => { event.target.textContent = "Copy link"; }, 1500);
    });
    one("#theme").addEventListener("click", () => this.colours(isDark() ? "light" : "dark"));
    systemDark.addEventListener("change", () => this.recolour());
    for (const kind of ["latency", "queues"]) {
      one(`[data-choose=${kind}] select`).addEventListener("change", (event) => { this.timeline.paths[kind] = event.target.value; this.request(); });
    }
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.goTo(readLink(location.hash)));
    addEventListener("resize", () => { this.showWholeName(); this.request(); if (this.range) this.stand(...this.range); });
    setInterval(() => { if (this.socket?.readyState === WebSocket.OPEN) this.loadLanes().catch(() => {}); }, 5000);
    one("#span").value = String(this.span / 1e9);
  }

  goTo(link) {
    const range = this.linked(link);
    if (link.lane && link.lane !== this.lane?.id) return this.choose(link.lane, range);
    return range ? this.stand(...range) : this.follow();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, textarea")) return;
    if (event.key === " " && event.target.closest("button, a")) return;
    const keys = { " ": "pause", ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out", p: "previous", n: "next" };
    if (event.key === "End" || event.key === "f") this.follow();
    else if (keys[event.key]) this.do(keys[event.key]);
    else return;
    event.preventDefault();
  }

  colours(name) {
    document.documentElement.dataset.theme = name;
    try { localStorage.setItem("mburst-theme", name); } catch { /* the choice lasts as long as the page */ }
    this.recolour();
  }

  recolour() {
    one("#theme").textContent = isDark() ? "Light" : "Dark";
    if (this.lane && this.parts !== null) this.build(this.parts);
  }
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : systemDark.matches;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

CONFIG.doubleClick = false;
const view = new LiveView();
try {
  const theme = localStorage.getItem("mburst-theme");
  if (theme) document.documentElement.dataset.theme = theme;
} catch { /* no storage: the system's colours */ }
one("#theme").textContent = isDark() ? "Light" : "Dark";
view.start().catch((error) => view.say(`This page cannot begin: ${error.message}`));
