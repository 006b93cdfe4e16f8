// Tables that sort by any column, by mouse or keyboard, and copy as tab-separated text.

function sortBy(table, column, heads) {
  const head = heads[column];
  const numeric = head.classList.contains("n");
  const descending = head.hasAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : numeric;
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.key;
  const compare = numeric || column === 0 && heads[0].textContent === "#"
    ? (p, q) => Number(key(p)) - Number(key(q)) : (p, q) => key(p).localeCompare(key(q), "en", { numeric: true });
  const rows = [...body.rows].sort((p, q) => (descending ? compare(q, p) : compare(p, q)));
  body.append(...rows);
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sortBy(table, column, heads)));
}

// A quote goes before text that a spreadsheet would evaluate, as in the CSV of mburst.
function cellText(cell) {
  const text = cell.textContent.trim();
  return /^[=+\-@]/.test(text) && !cell.classList.contains("n") ? `'${text}` : text;
}

function asText(table) {
  return [...table.rows].map((row) => [...row.cells].map(cellText).join("\t")).join("\n") + "\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
