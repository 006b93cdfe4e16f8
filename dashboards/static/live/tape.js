// The newest time of a lane as it is pushed: a message replaces everything from its first cell on.

function unpackMessage(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const block = buffer.slice(4 + length);
  const lane = unpackLane(block, head);
  lane.latency.forEach((path, i) => Object.assign(path, { measure: head.latency[i].measure, stamps: head.latency[i].stamps }));
  lane.queues.forEach((queue, i) => Object.assign(queue, { semantics: head.queues[i].semantics, dropped: head.queues[i].dropped }));
  if (head.heat) lane.heat = { ...envelope(block, head.heat), coverage: spans(block, head.heat.coverage) };
  return lane;
}

// Cuts ascending `target` (arrays of one length by name) where `key` reaches `from`, and appends `more`.
function replaceFrom(target, key, from, more, names) {
  const kept = lowerBound(target[key], from);
  for (const name of names) {
    target[name].length = kept;
    for (const value of more[name]) target[name].push(value);
  }
}

function forget(target, key, before, names) {
  const gone = lowerBound(target[key], before);
  if (gone > 512) for (const name of names) target[name].splice(0, gone);
}

const CELLS = ["cells", "largest", "total"], PROBES = ["at", "largest", "median", "n", "lost"];
const WINDOWS = ["start", "end", "largest"];

const growing = (entry, names) => ({ ...entry, ...Object.fromEntries(names.map((name) => [name, Array.from(entry[name])])) });

// The cells of each message count from its first one.
function joinCells(target, more) {
  if (!more.cells.length) return;
  if (!target.cells.length) Object.assign(target, { first: more.first, start: more.start });
  const shift = more.first - target.first;
  replaceFrom(target, "cells", more.cells[0] + shift, { ...more, cells: Array.from(more.cells, (cell) => cell + shift) }, CELLS);
}

function joinNamed(target, more, key, from, names) {
  for (const entry of more) {
    const known = target.find((other) => other.name === entry.name);
    if (!known) target.push(growing(entry, names));
    else if (entry.measure !== known.measure) Object.assign(known, growing(entry, names));
    else replaceFrom(known, key, Math.max(from, entry[key].length ? entry[key][0] : from), entry, names);
  }
}

// Returns spans before `start`, cut there, and those of a message from `start` on; those that touch become one.
function joined(before, message, start) {
  const found = { start: [], end: [] };
  const put = (from, to) => {
    const last = found.end.length - 1;
    if (last >= 0 && from <= found.end[last]) found.end[last] = Math.max(found.end[last], to);
    else if (to > from) { found.start.push(from); found.end.push(to); }
  };
  (before?.start ?? []).forEach((from, i) => { if (from < start) put(from, Math.min(before.end[i], start)); });
  message.start.forEach((from, i) => put(from, message.end[i]));
  return found;
}

const spansSince = ({ start, end }, ns) => {
  const gone = lowerBound(end, ns);
  return { start: start.slice(gone), end: end.slice(gone) };
};

class Tape {
  constructor(message, span) {
    this.span = span;
    this.base = growing(message.base, CELLS);
    this.seconds = growing(message.seconds, CELLS);
    this.latency = message.latency.map((path) => growing(path, PROBES));
    this.queues = message.queues.map((queue) => growing(queue, WINDOWS));
    this.bursts = [];
    this.losing = { start: [], end: [] };
    this.take(message);
  }

  apply(message) {
    joinCells(this.base, message.base);
    joinCells(this.seconds, message.seconds);
    joinNamed(this.latency, message.latency, "at", message.start, PROBES);
    joinNamed(this.queues, message.queues, "end", message.start, WINDOWS);
    this.take(message);
    this.trim();
  }

  take(message) {
    this.bin = message.bin;
    this.edge = message.edge;
    this.from = Math.min(this.from ?? Infinity, message.start);
    for (const name of ["losing", "coverage"]) this[name] = joined(this[name], message[name], message.start);
    const known = new Set(this.bursts.map((burst) => `${burst.recording_id} ${burst.start}`));
    this.fresh = message.bursts.filter((burst) => !known.has(`${burst.recording_id} ${burst.start}`));
    this.bursts = [...this.bursts, ...this.fresh].sort((p, q) => p.start - q.start);
  }

  trim() {
    const before = this.edge - 2 * this.span;
    if (this.from > before - this.span) return;
    this.from = before;
    for (const env of [this.base, this.seconds]) forget(env, "cells", Math.floor((before - env.start) / env.width), CELLS);
    for (const path of this.latency) forget(path, "at", before, PROBES);
    for (const queue of this.queues) forget(queue, "end", before, WINDOWS);
    this.bursts = this.bursts.filter((burst) => burst.end >= before);
    for (const name of ["losing", "coverage"]) this[name] = spansSince(this[name], before);
  }
}
