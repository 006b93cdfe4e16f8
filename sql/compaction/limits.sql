-- The number of wire bytes from which on bins, and windows of `widths`, are full, for the loosest definition of a
-- burst: a threshold (and release) of `threshold_ppb` of line rate. Full ones form an island if their starts are no
-- more than gap_ns apart. Of an island, the time from before_ns before its first start to after_ns after its last start
-- is kept: all that bursts.sql reads for any such definition.
--
-- A full bin of the stored width is kept with `around_ns` before and after it. A wider bin can be full only if it
-- contains such a bin, so wider bins up to `around_ns`, with joins that reach no further, need nothing more. Of the
-- wider bins with joins that do reach further, those of `widths` are kept: each full bin, the time between two full
-- bins that can be joined (5 bins), and one bin before.
--
-- Reads lanes (lane, bin_ns, link_bps). Creates limits; width_ns 0 stands for the stored bins.
CREATE OR REPLACE TEMP TABLE limits AS
WITH known AS (
    SELECT lane, bin_ns, link_bps, getvariable('threshold_ppb') / 1e9 AS share, CAST(getvariable('around_ns') AS BIGINT) AS around_ns
    FROM lanes WHERE link_bps IS NOT NULL
)
SELECT lane, CAST(0 AS BIGINT) AS width_ns, least_bytes(share, bin_ns, link_bps) AS full_bytes,
       greatest(2 * around_ns + bin_ns, 6 * bin_ns) AS gap_ns, greatest(around_ns, bin_ns) AS before_ns, around_ns + bin_ns AS after_ns
FROM known
UNION ALL
SELECT lane, width_ns, least_bytes(share, width_ns, link_bps), 6 * width_ns, width_ns, width_ns
FROM (SELECT *, unnest(CAST(getvariable('widths') AS BIGINT[])) AS width_ns FROM known)
WHERE width_ns % bin_ns = 0 AND 7 * width_ns > 2 * around_ns;
