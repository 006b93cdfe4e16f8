// Returns the figure in other colours: every string that is a colour of one palette becomes that of the other.
function recolour(value, from, to) {
  if (typeof value === "string") {
    const name = Object.keys(from).find((key) => from[key] === value);
    return name ? to[name] : value;
  }
  if (Array.isArray(value)) return value.map((item) => recolour(item, from, to));
  if (value && typeof value === "object" && !ArrayBuffer.isView(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, recolour(item, from, to)]));
  }
  return value;
}
