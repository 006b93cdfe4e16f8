// A line of latencies marks its points where it has no more: a single one would not be seen.
const FEW_POINTS = 60;
