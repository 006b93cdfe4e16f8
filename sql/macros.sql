-- A share of line rate. Wire bytes count preamble, FCS and gap; link_bps is of one direction.
CREATE MACRO utilization(wire_bytes, span_ns, link_bps) AS wire_bytes * 8e9 / span_ns / link_bps;

-- The fewest wire bytes that fill a share of a bin. In integers, so that a bin of exactly that share is not lost to
-- rounding; the share counts to nine digits.
CREATE MACRO least_bytes(share, bin_ns, link_bps) AS
    CAST((CAST(round(share * 1e9) AS HUGEINT) * bin_ns * link_bps + 7999999999999999999) // 8000000000000000000 AS BIGINT);

-- The number of the bin that holds a time, counted from 1970 and downwards before it (`//` alone rounds towards 1970, %
-- and CASE cost several times as much), and when that bin starts.
CREATE MACRO bin_number(ns, bin_ns) AS (ns + (ns >> 63) * (bin_ns - 1)) // bin_ns;
CREATE MACRO bin_start(ns, bin_ns) AS bin_number(ns, bin_ns) * bin_ns;

-- Of what was sent from first_ns to last_ns, the part that falls in [from_ns, to_ns), taking it as spread evenly.
CREATE MACRO part_within(amount, first_ns, last_ns, from_ns, to_ns) AS
    amount * greatest(0, least(last_ns + 1, to_ns) - greatest(first_ns, from_ns)) / (last_ns + 1 - first_ns);

-- Range joins on time go by slots of 2^bits nanoseconds: wide enough to hold 32 rows that are row_ns apart, and that
-- ranges of span_ns in all touch about a million.
CREATE MACRO slot_bits(row_ns, span_ns) AS CAST(ceil(log2(greatest(32 * row_ns, span_ns / 1e6))) AS INTEGER);

-- The names of the bits that are set in a quality.
CREATE MACRO quality_names(bits) AS
    coalesce((SELECT list(name ORDER BY bit) FROM quality WHERE bits & bit <> 0), []);

-- Whether a device's figure is to be believed: the bit `impossible` says that its port cannot do such a thing.
CREATE MACRO believable(quality) AS quality & 1024 = 0;

-- A time for people. Reckon with the integer.
CREATE MACRO utc(ns) AS make_timestamp_ns(ns);
