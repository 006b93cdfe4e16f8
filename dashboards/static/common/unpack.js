// Unpacks the data of the page, gzip in base64 inside script elements, without a request.

async function inflate(id) {
  const raw = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

const array = (buffer, entry) => new TYPES[entry.type](buffer, entry.at, entry.n);

// Returns numbers that were stored as differences.
function ascending(buffer, entry) {
  const values = Float64Array.from(array(buffer, entry));
  let sum = entry.base;
  for (let i = 0; i < values.length; i++) values[i] = sum += values[i];
  return values;
}

const spans = (buffer, entry) => ({ start: ascending(buffer, entry.start), end: ascending(buffer, entry.end) });

function envelope(buffer, entry) {
  const largest = array(buffer, entry.largest);
  return {
    ...entry, cells: ascending(buffer, entry.cells), largest, total: entry.total ? array(buffer, entry.total) : largest,
  };
}

function unpackLane(buffer, lane) {
  return {
    ...lane,
    coverage: spans(buffer, lane.coverage),
    marks: spans(buffer, lane.marks),
    losing: spans(buffer, lane.losing),
    base: envelope(buffer, lane.base),
    detail: lane.detail && envelope(buffer, lane.detail),
    detailCells: ascending(buffer, lane.detailCells),
    seconds: envelope(buffer, lane.seconds),
    latency: lane.latency.map((path) => ({
      name: path.name, at: ascending(buffer, path.at), largest: array(buffer, path.largest),
      median: array(buffer, path.median), n: array(buffer, path.n), lost: array(buffer, path.lost),
    })),
    queues: lane.queues.map((queue) => {
      const start = ascending(buffer, queue.start), length = array(buffer, queue.end);
      return { name: queue.name, start, end: start.map((at, i) => at + length[i]), largest: array(buffer, queue.largest) };
    }),
  };
}
