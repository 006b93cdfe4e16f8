-- A share of line rate. Wire bytes count preamble, FCS and gap; link_bps is of one direction.
CREATE MACRO utilization(wire_bytes, bin_ns, link_bps) AS wire_bytes * 8e9 / bin_ns / link_bps;

-- The names of the bits that are set in a quality.
CREATE MACRO quality_names(bits) AS
    coalesce((SELECT list(name ORDER BY bit) FROM quality WHERE bits & bit <> 0), []);

-- A time for people. Reckon with the integer.
CREATE MACRO utc(ns) AS make_timestamp_ns(ns);
