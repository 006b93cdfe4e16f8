// A line of latencies with no more points than this marks them: a single point would be invisible.
const FEW_POINTS = 60;
