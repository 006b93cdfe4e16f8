-- A share of line rate. Wire bytes count preamble, FCS and gap; link_bps is of one direction.
CREATE MACRO utilization(wire_bytes, span_ns, link_bps) AS wire_bytes * 8e9 / span_ns / link_bps;

-- The fewest wire bytes that fill a share of a bin. In integers, so that a bin of exactly that share is not lost to
-- rounding; the share counts to nine digits.
CREATE MACRO least_bytes(share, bin_ns, link_bps) AS
    CAST((CAST(round(share * 1e9) AS HUGEINT) * bin_ns * link_bps + 7999999999999999999) // 8000000000000000000 AS BIGINT);

-- The start of the bin of a time, also before 1970.
CREATE MACRO bin_start(ns, bin_ns) AS ns - (ns % bin_ns + bin_ns) % bin_ns;

-- Of what was sent from first_ns to last_ns, the part that falls in [from_ns, to_ns), taking it as spread evenly.
CREATE MACRO part_within(amount, first_ns, last_ns, from_ns, to_ns) AS
    amount * greatest(0, least(last_ns + 1, to_ns) - greatest(first_ns, from_ns)) / (last_ns + 1 - first_ns);

-- The names of the bits that are set in a quality.
CREATE MACRO quality_names(bits) AS
    coalesce((SELECT list(name ORDER BY bit) FROM quality WHERE bits & bit <> 0), []);

-- A time for people. Reckon with the integer.
CREATE MACRO utc(ns) AS make_timestamp_ns(ns);
