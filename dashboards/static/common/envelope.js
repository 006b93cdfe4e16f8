// The data to draw for a time: as mburst.analysis.model.envelope and .context do it, from the arrays of the page.

// Returns the first index with a value of at least `wanted`.
function lowerBound(values, wanted) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

const cellOf = (env, ns) => env.first + Math.floor((ns - env.start) / env.width);

// Returns whether `ns` is in one of the spans, which are ascending and disjoint.
function isWithin({ start, end }, ns) {
  const i = lowerBound(start, ns + 1) - 1;
  return i >= 0 && ns < end[i];
}

// Returns how much of each step [start[i], start[i] + width) is in `coverage`.
function recordedOf(start, width, coverage) {
  let c = 0;
  return start.map((from) => {
    while (c < coverage.start.length && coverage.end[c] <= from) c++;
    let sum = 0;
    for (let k = c; k < coverage.start.length && coverage.start[k] < from + width; k++) {
      sum += Math.min(coverage.end[k], from + width) - Math.max(coverage.start[k], from);
    }
    return sum;
  });
}

// Returns the largest bin and the mean of [a, b) in about `buckets` whole cells: {width, bins, start[], largest[],
// mean[]}, in bits per second. The mean is of the time of a step that `coverage` has as recorded.
function viewOf(env, a, b, buckets, coverage) {
  const factor = Math.max(1, Math.ceil((b - a) / (buckets * env.width)));
  const width = env.width * factor;
  const low = lowerBound(env.cells, Math.floor(cellOf(env, a) / factor) * factor - env.first);
  const high = lowerBound(env.cells, (Math.floor(cellOf(env, Math.max(b - 1, a)) / factor) + 1) * factor - env.first);
  const start = [], largest = [], total = [];
  let before = NaN;
  for (let i = low; i < high; i++) {
    const cell = Math.floor((env.first + env.cells[i]) / factor);
    if (cell === before) {
      const last = start.length - 1;
      if (env.largest[i] > largest[last]) largest[last] = env.largest[i];
      total[last] += env.total[i];
    } else {
      start.push(env.start + (cell * factor - env.first) * env.width);
      largest.push(env.largest[i]);
      total.push(env.total[i]);
      before = cell;
    }
  }
  const recorded = recordedOf(start, width, coverage);
  return {
    width, bins: width / env.bin, start, largest: largest.map((n) => n * (8e9 / env.bin)),
    mean: total.map((n, i) => Math.min(n * (8e9 / Math.max(recorded[i], env.bin)), largest[i] * (8e9 / env.bin))),
  };
}

// Returns every bin of [a, b) if the page holds all of them, otherwise the cells of the whole time.
function finestView(lane, a, b, buckets) {
  const { base, detail, detailCells } = lane;
  if (detail) {
    const first = cellOf(base, a), last = cellOf(base, Math.max(b - 1, a));
    const at = lowerBound(detailCells, first);
    if (detailCells[at] === first && detailCells[at + last - first] === last) return viewOf(detail, a, b, buckets, lane.coverage);
  }
  return viewOf(base, a, b, buckets, lane.coverage);
}

// Returns the points of a step line: recorded time without packets is zero, other time a gap. x is in seconds.
function stepLine(view, values, coverage, a, b) {
  const x = [], y = [];
  const put = (ns, value) => { x.push(ns / 1e9); y.push(value); };
  let i = 0, at = -Infinity;
  for (let c = 0; c < coverage.start.length; c++) {
    const end = Math.min(coverage.end[c], b);
    if (coverage.end[c] < Math.max(a, at) || coverage.start[c] > b) continue;
    at = Math.max(coverage.start[c], a, at);
    put(i < view.start.length ? Math.min(at, view.start[i]) : at, 0); // so that a filled line is flat over a pause
    while (i < view.start.length && view.start[i] <= end) {
      if (view.start[i] > at) put(at, 0);
      put(view.start[i], values[i]);
      at = view.start[i] + view.width;
      i++;
    }
    put(at, 0);
    put(Math.max(at, end), 0);
    put(Math.max(at, end), null);
  }
  return { x, y };
}

// Returns spans that overlap [a, b). Gaps below `least` are closed, and each span is drawn at least that wide.
function visible(marks, a, b, least) {
  const found = [];
  for (let i = 0; i < marks.start.length; i++) {
    if (marks.end[i] < a || marks.start[i] > b) continue;
    const last = found[found.length - 1];
    if (last && marks.start[i] - last[1] < least) last[1] = Math.max(last[1], marks.end[i]);
    else found.push([marks.start[i], Math.max(marks.end[i], marks.start[i] + 2 * least)]);
  }
  return found;
}

function weightedMedian(path, picked) {
  picked.sort((i, j) => path.median[i] - path.median[j]);
  const half = picked.reduce((sum, i) => sum + path.n[i], 0) / 2;
  let reached = 0;
  for (const i of picked) if ((reached += path.n[i]) >= half) return path.median[i];
  return NaN;
}

// A pause of probing: times its usual spacing, the median of a sample of probes, spread by the golden ratio so that no
// pattern of probes is sampled alone.
const PAUSE = 20, SAMPLE = 4096, GOLDEN = 0.6180339887498949;

function pauseOf({ at }) {
  const last = at.length - 1, apart = new Float64Array(Math.min(Math.max(last, 0), SAMPLE));
  for (let k = 0; k < apart.length; k++) {
    const i = 1 + (last > SAMPLE ? Math.floor(((k * GOLDEN) % 1) * last) : k);
    apart[k] = at[i] - at[i - 1];
  }
  return apart.length ? PAUSE * apart.sort()[apart.length >> 1] : Infinity;
}

// Removes the nulls of a view that would leave a point alone, which a line does not show.
function withoutLonelyPoints({ at, largest, median, lost }) {
  const ends = [-1, ...largest.keys()].filter((i) => i < 0 || largest[i] === null).concat(largest.length);
  const lonely = new Set(ends.flatMap((end, k) => (k && end - ends[k - 1] === 2 ? [ends[k - 1], end] : [])));
  const stays = (_, i) => largest[i] !== null || !lonely.has(i);
  return { at: at.filter(stays), largest: largest.filter(stays), median: median.filter(stays), lost };
}

// Returns the slowest and the median probe of about `buckets` steps of [a, b), each at the time of the slowest; and the
// lost probes. Where probing pauses, latencies are null once.
function latencyView(path, a, b, buckets) {
  const low = lowerBound(path.at, a), high = lowerBound(path.at, b);
  const width = high - low > buckets ? Math.ceil((b - a) / buckets) : 1;
  const at = [], largest = [], median = [], lost = [];
  const pause = pauseOf(path);
  let group = [], key = NaN;
  const close = () => {
    if (!group.length) return;
    const slowest = group.reduce((best, i) => (path.largest[i] > path.largest[best] ? i : best));
    at.push(path.at[slowest]);
    largest.push(path.largest[slowest]);
    median.push(weightedMedian(path, group));
  };
  for (let i = low; i < high; i++) {
    if (path.lost[i]) lost.push(path.at[i]);
    if (i > low && path.at[i] - path.at[i - 1] > pause) {
      close();
      [group, key] = [[], NaN];
      if (largest.length && largest[largest.length - 1] !== null) {
        at.push((path.at[i] + path.at[i - 1]) / 2);
        largest.push(null);
        median.push(null);
      }
    }
    if (!path.n[i]) continue;
    const here = Math.floor(path.at[i] / width);
    if (here !== key) {
      close();
      group = [];
      key = here;
    }
    group.push(i);
  }
  close();
  return withoutLonelyPoints({ at, largest, median, lost });
}

// Returns [start, end, bytes] of the windows that overlap [a, b), or of as many steps. A window counts in every step
// that it overlaps, because the time of its maximum is unknown.
function queueView(queue, a, b, buckets) {
  const seen = [];
  for (let i = 0; i < queue.start.length; i++) if (queue.end[i] >= a && queue.start[i] < b) seen.push(i);
  if (seen.length <= buckets) return seen.map((i) => [queue.start[i], queue.end[i], queue.largest[i]]);
  const width = Math.ceil((b - a) / buckets), highest = new Map();
  for (const i of seen) {
    const last = Math.floor(Math.min(queue.end[i], b - 1) / width);
    for (let bucket = Math.floor(Math.max(queue.start[i], a) / width); bucket <= last; bucket++) {
      highest.set(bucket, Math.max(highest.get(bucket) ?? 0, queue.largest[i]));
    }
  }
  return [...highest].sort((p, q) => p[0] - q[0]).map(([bucket, high]) => [bucket * width, (bucket + 1) * width, high]);
}
