// Numbers for readers, in the format of mburst.units: three significant digits, and all digits before the point. A tie
// goes to the even digit, as in Python; toPrecision and Math.round take the larger number.
const threeDigits = (number) =>
  Math.abs(number) < 999.5 ? String(Number(significant(number, 3))) : evenly(number).toLocaleString("en");

function significant(number, digits) {
  const exact = Math.abs(number).toPrecision(100).replace(/e.*$|\./g, "").replace(/^0+/, "");
  const isTie = /^50*$/.test(exact.slice(digits)), isEven = Number(exact[digits - 1]) % 2 === 0;
  return (isTie && isEven ? number * (1 - 1e-9) : number).toPrecision(digits);
}

function evenly(number) {
  const below = Math.floor(number);
  return number - below === 0.5 ? below + Math.abs(below % 2) : Math.round(number);
}

function scaled(value, steps) {
  const [size, unit] = steps.find(([least]) => Math.abs(value) >= 0.9995 * least) ?? steps[steps.length - 1];
  return `${threeDigits(value / size)} ${unit}`;
}

const duration = (ns) =>
  scaled(ns, [[86_400e9, "d"], [3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
const bytes = (count) => scaled(count, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
const share = (part) => `${threeDigits(100 * part)} %`;

// Returns an external name as text, with invisible characters (controls, marks of writing direction, line separators)
// as \x1b or \u202e, in the format of mburst.names.
function seen(text) {
  return String(text)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
      const code = character.codePointAt(0), hex = (width) => code.toString(16).padStart(width, "0");
      return code < 0x100 ? `\\x${hex(2)}` : code < 0x10000 ? `\\u${hex(4)}` : `\\U${hex(8)}`;
    });
}

// The same for plotly, which interprets tags and entities in its texts.
const label = (text) => seen(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const two = (number) => String(number).padStart(2, "0");

// Returns the clock (UTC) at `ns` after `originS` Unix seconds, with `digits` after the second.
function clock(originS, ns, digits) {
  const second = Math.floor(ns / 1e9);
  const at = new Date((originS + second) * 1000);
  const rest = String(Math.round(ns - second * 1e9)).padStart(9, "0").slice(0, digits);
  return {
    day: at.toISOString().slice(0, 10),
    minute: `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`,
    second: two(at.getUTCSeconds()) + (digits ? `.${rest}` : ""),
  };
}

const STEPS = [];
for (let decade = 1; decade < 1e9; decade *= 10) STEPS.push(decade, 2 * decade, 5 * decade);
for (const seconds of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
  2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 91 * 86400, 364 * 86400]) STEPS.push(seconds * 1e9);

// Returns the ticks of a time axis in [a, b] nanoseconds. The day and minute are below the first tick, and below each
// tick at which they change.
function timeTicks(originS, a, b, width) {
  const step = STEPS.find((size) => (b - a) / size <= Math.max(2, width / 96)) ?? STEPS[STEPS.length - 1];
  const digits = step >= 1e9 ? 0 : Math.ceil(9 - Math.log10(step) - 1e-9);
  const at = [], text = [];
  let before = "";
  for (let i = Math.ceil(a / step); i * step <= b && at.length < 60; i++) {
    const date = clock(originS, i * step, digits);
    const line = step >= 86400e9 ? date.day : step >= 60e9 ? date.minute : step >= 1e9 ? `${date.minute}:${date.second}`
      : `${date.second} s`;
    const under = step >= 86400e9 ? "" : step >= 1e9 ? date.day : `${date.day} ${date.minute}`;
    at.push(i * step / 1e9);
    text.push(under === before ? line : `${line}<br>${under}`);
    before = under;
  }
  return { at, text };
}
