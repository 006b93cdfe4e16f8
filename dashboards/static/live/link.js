// A link to any moment: #lane=…&from=2026-11-21T02:34:23.904000000Z&to=…, or #lane=…&span=10s while it follows.

// Nanoseconds since 1970 as a BigInt: doubles do not hold them.
const absolute = (originS, ns) => BigInt(originS) * 1_000_000_000n + BigInt(Math.round(ns));

function isoOf(originS, ns) {
  const all = absolute(originS, ns), second = all / 1_000_000_000n;
  return `${new Date(Number(second) * 1000).toISOString().slice(0, 19)}.${String(all % 1_000_000_000n).padStart(9, "0")}Z`;
}

// Returns the nanoseconds since the origin of such a time; null if it is invalid.
function sinceOrigin(originS, iso) {
  const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z$/.exec(iso ?? "");
  const ms = parts ? Date.parse(`${parts[1]}Z`) : NaN;
  return Number.isNaN(ms) ? null : (ms / 1000 - originS) * 1e9 + Number((parts[2] ?? "").padEnd(9, "0"));
}

function readLink(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  return { lane: given.get("lane"), from: given.get("from"), to: given.get("to"), span: Number(given.get("span")) || null };
}

function writeLink(originS, laneId, range, span) {
  const parameters = new URLSearchParams({ lane: laneId });
  if (range) {
    parameters.set("from", isoOf(originS, range[0]));
    parameters.set("to", isoOf(originS, range[1]));
  } else parameters.set("span", String(span / 1e9));
  const hash = `#${parameters}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
}
