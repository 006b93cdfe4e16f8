-- Bursts: when one interface carried a burst in one direction, and who sent it.
--
-- A bin is hot when its utilization is at least `threshold`. A busy period is consecutive bins: it begins with a hot
-- one and continues while utilization is at least `release`. A burst is busy periods at most `join_ns` apart, from the
-- start of the first bin to the end of the last. Its bytes, packets and mean utilization count every bin in that time.
--
-- Senders come from the bins of `sources` that touch the burst. If such a bin reaches beyond the burst, its bytes count
-- by the part of its time (first to last packet) that lies within the burst: exact for a sender that was quiet before
-- and after, an estimate for others. `other` (the senders beyond --max-sources) counts as its members in `sources`. It
-- is left out of fan_in, effective_sources and onset_spread_ns, unless it is the only sender; then all of its members
-- count.
--   fan_in             senders with at least half an equal share of the bytes
--   effective_sources  1 / sum of squared shares
--   onset_spread_ns    from the first frame in the burst of the first sender in fan_in to that of the last
--   pattern            single-source: fan_in is 1. incast: fan_in is 3 or more, at least 3 and half of them began with
--                      the burst (in the source_bin_ns before it they sent at less than half their rate in it), and
--                      these began within half the burst or source_bin_ns of each other, whichever is longer. A
--                      receiver sees departures from the last queue: while the link is full (mean utilization 0.9 or
--                      more), frames that were sent together arrive one after the other, so late onsets do not exclude
--                      an incast. many-sources: all others. unknown: no sender is known. canary: `mburst canary` sent
--                      it: a canary burst of its largest sender, with at least half of the bytes, was in its time (± a
--                      bin).
--
-- Settings are variables (SET VARIABLE threshold = 0.8), each with a default: threshold 0.5, release (threshold),
-- bin_ns (as stored; a multiple sums stored bins), join_ns (5 bins), min_duration_ns (1 bin), link_bps (as recorded),
-- hosts and recordings (lists), rack, interface, direction, recording, since_ns and until_ns (bins that start in
-- between), without_unfit_ports (true: leave out switch ports of an unknown line rate, or with bins that do not make up
-- bin_ns; otherwise these are an error), span_until_ns (until_ns: the time at which links name the host behind a port).

-- The host behind each switch port, according to the links at the end of the time.
CREATE OR REPLACE TEMP TABLE attached (device VARCHAR, port VARCHAR, attached_host VARCHAR, attached_interface VARCHAR);

INSERT INTO attached  -- where there are rows: links
FROM attached_hosts('links', coalesce(
    CAST(getvariable('span_until_ns') AS BIGINT), CAST(getvariable('until_ns') AS BIGINT), 9223372036854775807));

-- The recordings to examine, numbered: comparing a number is cheaper than comparing text in 100 million rows.
CREATE OR REPLACE TEMP TABLE lanes AS
WITH wanted AS (
    SELECT *, coalesce(CAST(getvariable('bin_ns') AS BIGINT), bin_ns) AS width_ns,
           coalesce(CAST(getvariable('link_bps') AS BIGINT), link_bps) AS speed,
           coalesce(CAST(getvariable('threshold') AS DOUBLE), 0.5) AS threshold
    FROM recordings
    WHERE coalesce(list_contains(CAST(getvariable('hosts') AS VARCHAR[]), host), true)
      AND rack = coalesce(CAST(getvariable('rack') AS VARCHAR), rack)
      AND interface = coalesce(CAST(getvariable('interface') AS VARCHAR), interface)
      AND direction = coalesce(CAST(getvariable('direction') AS VARCHAR), direction)
      AND recording_id = coalesce(CAST(getvariable('recording') AS VARCHAR), recording_id)
      AND coalesce(list_contains(CAST(getvariable('recordings') AS VARCHAR[]), recording_id), true)
      AND NOT (backend = 'otlp' AND coalesce(CAST(getvariable('without_unfit_ports') AS BOOLEAN), false)
               AND (speed IS NULL OR width_ns % bin_ns <> 0))
), checked AS (
    SELECT *, CASE
        WHEN speed IS NULL THEN error('recording ' || recording_id || ' (' || host || ' ' || interface || ' ' || direction
            || '): the link speed is not known (give it with --link)')
        ELSE stored_bins(width_ns, bin_ns, host, interface, direction, recording_id) END AS factor
    FROM wanted
), received AS (
    SELECT checked.*, attached_host, attached_interface,
           named_receiver_of(host, interface, direction, backend, attached_host) AS receiver
    FROM checked LEFT JOIN attached ON backend = 'otlp' AND host = device AND interface = port
)
SELECT CAST(row_number() OVER (ORDER BY recording_id) AS INTEGER) AS lane, recording_id, host, rack, interface, direction,
       bin_ns AS stored_ns, width_ns AS bin_ns, source_bin_ns, speed AS link_bps, factor,
       coalesce(CAST(getvariable('join_ns') AS BIGINT), 5 * width_ns) AS join_ns,
       coalesce(CAST(getvariable('min_duration_ns') AS BIGINT), width_ns) AS min_duration_ns,
       least_bytes(threshold, width_ns, speed) AS hot_bytes,
       least_bytes(least(coalesce(CAST(getvariable('release') AS DOUBLE), threshold), threshold), width_ns, speed)
           AS warm_bytes,
       (warm_bytes + factor - 1) // factor AS peak_bytes,  -- the least that the fullest stored bin in a warm bin has
       receiver, backend, attached_host, attached_interface
FROM received;

-- When the host behind a switch port was recorded itself: if a clock stepped, all bins are read to find out.
CREATE OR REPLACE TEMP TABLE attached_ports (lane INTEGER);

INSERT INTO attached_ports  -- where there are rows: attached
SELECT lane FROM lanes WHERE attached_host IS NOT NULL;

CREATE OR REPLACE TEMP TABLE own_times (
    lane INTEGER, own_lane INTEGER, clock_epoch USMALLINT, start_ns BIGINT, end_ns BIGINT);

INSERT INTO own_times  -- where there are rows: attached_ports
FROM own_times_of('lanes', 'recorded');

-- Days on which a store was compacted (`thinned`), if the rows that were kept do not show every such burst: see
-- sql/compaction/spans.sql. A day is not among them if all of its requested time was kept (`kept`).
CREATE OR REPLACE TEMP TABLE lacking (recording_id VARCHAR, day_end_ns BIGINT);

INSERT INTO lacking  -- where there are rows: defined.all_thinned
WITH days AS (
    SELECT recording_id, end_ns AS day_end_ns,
           greatest(start_ns, coalesce(CAST(getvariable('since_ns') AS BIGINT), start_ns)) AS start_ns,
           least(end_ns, coalesce(CAST(getvariable('until_ns') AS BIGINT), end_ns)) AS end_ns,
           coalesce(least_bytes(threshold_ppb / 1e9, bin_ns, thinned.link_bps) <= least(hot_bytes, warm_bytes)
               AND (bin_ns <= around_ns AND 2 * bin_ns + join_ns <= 2 * around_ns
                    OR (factor = 1 OR bin_ns IN (20000000, 50000000, 100000000, 200000000, 500000000, 1000000000))
                        AND join_ns <= 5 * bin_ns), false) AS is_found
    FROM thinned JOIN (SELECT recording_id, bin_ns, factor, join_ns, hot_bytes, warm_bytes FROM lanes) USING (recording_id)
), whole AS (
    SELECT recording_id, start_ns, max(kept_ns) AS kept_ns
    FROM (SELECT recording_id, days.start_ns,
                 sum(least(days.end_ns, kept.end_ns) - greatest(days.start_ns, kept.start_ns)) AS kept_ns
          FROM days JOIN kept USING (recording_id)
          WHERE NOT is_found AND kept.start_ns < days.end_ns AND kept.end_ns > days.start_ns
          GROUP BY recording_id, days.start_ns, clock_epoch)
    GROUP BY recording_id, start_ns
)
SELECT recording_id, day_end_ns FROM days LEFT JOIN whole USING (recording_id, start_ns)
WHERE NOT is_found AND start_ns < end_ns AND coalesce(kept_ns < end_ns - start_ns, true);

-- The time from which on every burst is found. Without `since_ns` the answer begins there; requested time is never left
-- out.
SET VARIABLE answerable_ns = (SELECT max(day_end_ns) FROM lacking);

SELECT CASE WHEN getvariable('since_ns') < getvariable('answerable_ns') THEN error(
    'usage: before ' || utc(getvariable('answerable_ns')) || ' UTC this store was compacted, and not every burst of this '
    || 'definition is kept: choose a later --since, or a higher --threshold') END;

SET VARIABLE peak_bytes = (SELECT coalesce(min(peak_bytes), 0) FROM lanes);
SET VARIABLE first_ns = coalesce(CAST(getvariable('since_ns') AS BIGINT), getvariable('answerable_ns'), -9223372036854775808);
SET VARIABLE beyond_ns = coalesce(CAST(getvariable('until_ns') AS BIGINT), 9223372036854775807);

-- Bins at or above release, of the stored width:
CREATE OR REPLACE TEMP TABLE warm AS
SELECT lane, clock_epoch, ts_ns, wire_bytes
FROM bins JOIN (SELECT recording_id, lane, warm_bytes FROM lanes WHERE factor = 1) USING (recording_id)
WHERE wire_bytes >= getvariable('peak_bytes') AND wire_bytes >= warm_bytes
  AND ts_ns >= getvariable('first_ns') AND ts_ns < getvariable('beyond_ns');

-- … and of a multiple of it: possible only if one of the stored bins is full enough.
CREATE OR REPLACE TEMP TABLE possible AS
SELECT DISTINCT lane, clock_epoch, bin_start(ts_ns, getvariable('bin_ns')) AS ts_ns
FROM bins JOIN (SELECT recording_id, lane, peak_bytes FROM lanes WHERE factor > 1) USING (recording_id)
WHERE wire_bytes >= getvariable('peak_bytes') AND wire_bytes >= peak_bytes
  AND bin_start(bins.ts_ns, getvariable('bin_ns')) >= getvariable('first_ns')
  AND bin_start(bins.ts_ns, getvariable('bin_ns')) < getvariable('beyond_ns');

-- Only possible bins, and gaps between them that can be joined, can be in a burst.
CREATE OR REPLACE TEMP TABLE reaches (lane INTEGER, clock_epoch USMALLINT, start_ns BIGINT, end_ns BIGINT);

INSERT INTO reaches  -- where there are rows: possible
WITH steps AS (
    SELECT *, lag(ts_ns) OVER earlier + bin_ns AS before_ns, max(ts_ns) OVER lane + bin_ns AS last_ns
    FROM possible JOIN (SELECT lane, bin_ns, join_ns FROM lanes) USING (lane)
    WINDOW lane AS (PARTITION BY lane, clock_epoch), earlier AS (PARTITION BY lane, clock_epoch ORDER BY ts_ns)
)
SELECT lane, clock_epoch, ts_ns AS start_ns,
       coalesce(lead(before_ns) OVER (PARTITION BY lane, clock_epoch ORDER BY ts_ns), last_ns) AS end_ns
FROM steps
WHERE coalesce(ts_ns - before_ns > join_ns, true);

SET VARIABLE slot_bits = (  -- where there are rows: reaches
    SELECT slot_bits(max(stored_ns), sum(end_ns - start_ns)) FROM reaches JOIN lanes USING (lane));

CREATE OR REPLACE TEMP TABLE filled (lane INTEGER, clock_epoch USMALLINT, ts_ns BIGINT, bytes BIGINT, wire_bytes BIGINT,
                                     packets BIGINT, quality USMALLINT);

INSERT INTO filled  -- where there are rows: reaches
WITH slots AS MATERIALIZED (
    SELECT lane, recording_id, clock_epoch, start_ns, end_ns, unnest(range(
        start_ns >> getvariable('slot_bits'), ((end_ns - 1) >> getvariable('slot_bits')) + 1)) AS slot
    FROM reaches JOIN lanes USING (lane)
), near AS (
    SELECT *, ts_ns >> getvariable('slot_bits') AS slot FROM bins WHERE slot IN (SELECT slot FROM slots)
)
SELECT lane, clock_epoch, bin_start(near.ts_ns, getvariable('bin_ns')) AS ts_ns, CAST(sum(bytes) AS BIGINT) AS bytes,
       CAST(sum(wire_bytes) AS BIGINT) AS wire_bytes, CAST(sum(packets) AS BIGINT) AS packets, bit_or(quality) AS quality
FROM near JOIN slots USING (slot, clock_epoch, recording_id)
WHERE near.ts_ns >= start_ns AND near.ts_ns < end_ns
GROUP BY lane, clock_epoch, bin_start(near.ts_ns, getvariable('bin_ns'));

INSERT INTO warm  -- where there are rows: filled
SELECT lane, clock_epoch, ts_ns, wire_bytes FROM filled JOIN (SELECT lane, warm_bytes FROM lanes) USING (lane)
WHERE wire_bytes >= warm_bytes;

CREATE OR REPLACE TEMP TABLE stretches AS
SELECT lane, clock_epoch, min(ts_ns) FILTER (wire_bytes >= hot_bytes) AS start_ns, max(ts_ns) + any_value(bin_ns) AS end_ns,
       max(wire_bytes) AS peak_bytes
FROM (SELECT *, ts_ns // bin_ns - row_number() OVER (PARTITION BY lane, clock_epoch ORDER BY ts_ns) AS stretch
      FROM warm JOIN (SELECT lane, bin_ns, hot_bytes FROM lanes) USING (lane))
GROUP BY lane, clock_epoch, stretch
HAVING start_ns IS NOT NULL;

CREATE OR REPLACE TEMP TABLE extents AS
WITH opening AS (
    SELECT *, coalesce(start_ns - lag(end_ns) OVER earlier > join_ns, true) AS opens
    FROM stretches JOIN (SELECT lane, join_ns, min_duration_ns FROM lanes) USING (lane)
    WINDOW earlier AS (PARTITION BY lane, clock_epoch ORDER BY start_ns)
), placed AS (
    SELECT *, sum(CAST(opens AS INTEGER)) OVER (PARTITION BY lane, clock_epoch ORDER BY start_ns) AS place FROM opening
)
SELECT row_number() OVER (ORDER BY min(start_ns), lane, clock_epoch) AS burst, lane, clock_epoch, min(start_ns) AS start_ns,
       max(end_ns) AS end_ns, max(peak_bytes) AS peak_bytes
FROM placed
GROUP BY lane, clock_epoch, place
HAVING max(end_ns) - min(start_ns) >= any_value(min_duration_ns);

-- Bins of the stored width are scanned once more, for all that lie within bursts; the scan compares the slot of time
-- first.
SET VARIABLE slot_bits = (  -- where there are rows: extents
    SELECT slot_bits(max(stored_ns), sum(end_ns - start_ns)) FROM extents JOIN lanes USING (lane) WHERE factor = 1);

CREATE OR REPLACE TEMP TABLE totals (
    burst BIGINT, bytes HUGEINT, wire_bytes HUGEINT, packets HUGEINT, quality USMALLINT);

INSERT INTO totals  -- where there are rows: extents
WITH slots AS MATERIALIZED (
    SELECT burst, recording_id, clock_epoch, start_ns, end_ns, unnest(range(
        start_ns >> getvariable('slot_bits'), ((end_ns - 1) >> getvariable('slot_bits')) + 1)) AS slot
    FROM extents JOIN lanes USING (lane)
    WHERE factor = 1
), near AS (
    SELECT *, ts_ns >> getvariable('slot_bits') AS slot FROM bins WHERE slot IN (SELECT slot FROM slots)
)
SELECT burst, sum(bytes), sum(wire_bytes), sum(packets), bit_or(quality)
FROM near JOIN slots USING (slot, clock_epoch, recording_id)
WHERE ts_ns >= start_ns AND ts_ns < end_ns
GROUP BY burst;

INSERT INTO totals  -- where there are rows: filled
SELECT burst, sum(bytes), sum(wire_bytes), sum(packets), bit_or(quality)
FROM filled ASOF JOIN extents
    ON filled.lane = extents.lane AND filled.clock_epoch = extents.clock_epoch AND filled.ts_ns >= extents.start_ns
WHERE filled.ts_ns < end_ns
GROUP BY burst;

SET VARIABLE source_slot_bits = (  -- where there are rows: extents
    SELECT slot_bits(max(source_bin_ns), sum(end_ns - start_ns)) FROM extents JOIN lanes USING (lane));

-- What each sender sent in each burst, and in the time of one source bin before it (which ends one bin before the first
-- hot one, since a burst may begin in that bin).
CREATE OR REPLACE TEMP TABLE senders (
    burst BIGINT, source VARCHAR, members UINTEGER, bytes DOUBLE, bytes_before DOUBLE, onset_ns BIGINT);

INSERT INTO senders  -- where there are rows: extents
WITH slots AS MATERIALIZED (
    SELECT burst, lane, clock_epoch, start_ns, end_ns, start_ns - bin_ns - source_bin_ns AS before_ns, start_ns - bin_ns AS quiet_ns,
           unnest(range((before_ns - source_bin_ns) >> getvariable('source_slot_bits'),
                        ((end_ns - 1) >> getvariable('source_slot_bits')) + 1)) AS slot
    FROM extents JOIN (SELECT lane, bin_ns, source_bin_ns FROM lanes) USING (lane)
), near AS (
    SELECT *, ts_ns >> getvariable('source_slot_bits') AS slot FROM sources WHERE slot IN (SELECT slot FROM slots)
)
SELECT burst, source, max(members) FILTER (last_ns >= start_ns) AS members,
       sum(part_within(bytes, first_ns, last_ns, start_ns, end_ns)) AS bytes,
       sum(part_within(bytes, first_ns, last_ns, before_ns, quiet_ns)) AS bytes_before,
       min(greatest(first_ns, start_ns)) FILTER (last_ns >= start_ns) AS onset_ns
FROM near JOIN (SELECT recording_id, lane FROM lanes) USING (recording_id) JOIN slots USING (lane, clock_epoch, slot)
WHERE last_ns >= before_ns AND first_ns < end_ns
GROUP BY burst, source
HAVING onset_ns IS NOT NULL;

CREATE OR REPLACE TEMP TABLE burst_sources (
    burst BIGINT, source VARCHAR, members UINTEGER, bytes DOUBLE, share DOUBLE, onset_ns BIGINT, known BOOLEAN,
    counted BOOLEAN, began BOOLEAN, place BIGINT);

INSERT INTO burst_sources  -- where there are rows: senders
WITH named AS (
    SELECT *, source <> 'other' OR count(*) OVER (PARTITION BY burst) = 1 AS known FROM senders
)
SELECT burst, source, members, bytes, bytes / sum(bytes) OVER whole AS share, onset_ns, known,
       known AND bytes >= sum(bytes) FILTER (known) OVER whole / count(*) FILTER (known) OVER whole / 2 AS counted,
       bytes_before / source_bin_ns < 0.5 * bytes / (end_ns - start_ns) AS began,
       row_number() OVER (PARTITION BY burst ORDER BY bytes DESC, source) AS place
FROM named JOIN (SELECT burst, lane, start_ns, end_ns FROM extents) USING (burst)
           JOIN (SELECT lane, source_bin_ns FROM lanes) USING (lane)
WINDOW whole AS (PARTITION BY burst);

-- Bursts in whose time a file of their host is damaged, or a damaged file of which host or time is not known.
CREATE OR REPLACE TEMP TABLE incomplete (burst BIGINT);

INSERT INTO incomplete  -- where there are rows: damaged_files
SELECT DISTINCT burst
FROM extents JOIN (SELECT lane, host, rack FROM lanes) AS lanes USING (lane) JOIN damaged_files AS missing
    ON table_name IN ('bins', 'sources', 'recordings') AND missing.host IN ('', lanes.host)
    AND missing.rack IN ('', lanes.rack) AND coalesce(first_ns < end_ns, true) AND coalesce(last_ns >= start_ns, true);

-- Bursts that `mburst canary` sent.
CREATE OR REPLACE TEMP TABLE canaries (burst BIGINT);

INSERT INTO canaries  -- where there are rows: defined.all_canary
WITH sent AS (
    SELECT DISTINCT recording_id, clock_epoch, source, start_ns, end_ns FROM canary
)
SELECT burst
FROM (SELECT burst, recording_id, clock_epoch, source, start_ns - bin_ns AS since_ns, end_ns + bin_ns AS until_ns
      FROM extents JOIN (SELECT lane, recording_id, bin_ns FROM lanes) USING (lane) JOIN burst_sources USING (burst)
      WHERE place = 1 AND share >= 0.5) AS whole
ASOF JOIN sent ON whole.recording_id = sent.recording_id AND whole.clock_epoch = sent.clock_epoch
    AND whole.source = sent.source AND whole.until_ns > sent.start_ns  -- the last that began before its end
WHERE sent.end_ns > whole.since_ns;

CREATE OR REPLACE TEMP TABLE attached_bursts (
    burst BIGINT, lane INTEGER, recording_id VARCHAR, clock_epoch USMALLINT, start_ns BIGINT, end_ns BIGINT);

INSERT INTO attached_bursts  -- where there are rows: own_times
SELECT burst, lane, recording_id, clock_epoch, start_ns, end_ns
FROM extents JOIN (SELECT lane, recording_id FROM lanes) USING (lane) WHERE lane IN (SELECT lane FROM own_times);

CREATE OR REPLACE TEMP TABLE beside_hosts (burst BIGINT);

INSERT INTO beside_hosts  -- where there are rows: own_times
FROM counted_by_hosts('attached_bursts', 'recorded', 'own_times');

CREATE OR REPLACE TEMP TABLE bursts AS
WITH fans AS (
    SELECT burst, sum(members) AS sources, sum(members) FILTER (counted) AS fan_in,
           CASE WHEN bool_or(source = 'other' AND known) THEN CAST(sum(members) AS DOUBLE)
                ELSE sum(bytes) FILTER (known) ^ 2 / sum(bytes ^ 2) FILTER (known) END AS effective_sources,
           max(onset_ns) FILTER (counted) - min(onset_ns) FILTER (counted) AS onset_spread_ns,
           count(*) FILTER (counted AND began) AS began,
           max(onset_ns) FILTER (counted AND began) - min(onset_ns) FILTER (counted AND began) AS began_spread_ns
    FROM burst_sources
    GROUP BY burst
)
SELECT burst, recording_id, host, rack, interface, direction, clock_epoch, start_ns, end_ns, end_ns - start_ns AS duration_ns,
       CAST(totals.bytes AS BIGINT) AS bytes, CAST(packets AS BIGINT) AS packets,
       utilization(wire_bytes, duration_ns, link_bps) AS mean_utilization,
       utilization(peak_bytes, bin_ns, link_bps) AS peak_utilization,
       CAST(coalesce(sources, 0) AS BIGINT) AS sources, CAST(coalesce(fan_in, 0) AS BIGINT) AS fan_in,
       effective_sources, onset_spread_ns,
       CASE WHEN burst IN (FROM canaries) THEN 'canary'
            WHEN fan_in IS NULL THEN 'unknown'
            WHEN fan_in = 1 THEN 'single-source'
            WHEN began >= 3 AND began * 2 >= fan_in
                AND (mean_utilization >= 0.9 OR began_spread_ns <= greatest(duration_ns // 2, source_bin_ns))
                THEN 'incast'
            ELSE 'many-sources' END AS pattern,
       quality | CASE WHEN burst IN (FROM incomplete) THEN 16384 ELSE 0 END AS quality, bin_ns, link_bps,
       CASE WHEN burst NOT IN (FROM beside_hosts) THEN receiver END AS receiver
FROM extents JOIN totals USING (burst) LEFT JOIN fans USING (burst) JOIN (
    SELECT lane, recording_id, host, rack, interface, direction, bin_ns, source_bin_ns, link_bps, receiver
    FROM lanes) USING (lane)
ORDER BY burst;

-- The names of the senders of each burst at its time: the senders with the most bytes, and those of its fan-in. It has
-- rows if the store has names.
CREATE OR REPLACE TEMP TABLE burst_names (
    burst BIGINT, source VARCHAR, counted BOOLEAN, name VARCHAR, service VARCHAR, rack VARCHAR);

CREATE OR REPLACE TEMP TABLE burst_addresses AS  -- where there are rows: names
SELECT DISTINCT source AS address, start_ns AS at_ns FROM burst_sources JOIN bursts USING (burst) WHERE place <= 10 OR counted;

INSERT INTO burst_names  -- where there are rows: names
SELECT burst, source, counted, name, service, called.rack
FROM burst_sources JOIN (SELECT burst, start_ns AS at_ns FROM bursts) USING (burst)
JOIN (SELECT address AS source, * EXCLUDE (address) FROM named_at('burst_addresses')) AS called USING (source, at_ns)
WHERE place <= 10 OR counted;

-- Who sent each burst: the senders with the most bytes, and the services of the fan-in, by rack.
CREATE OR REPLACE TEMP VIEW burst_senders AS
WITH tops AS (
    SELECT burst, list({source: source, bytes: CAST(round(bytes) AS BIGINT), share: share, name: name, service: service, rack: rack}
                       ORDER BY place) AS top_sources
    FROM burst_sources LEFT JOIN burst_names USING (burst, source) WHERE place <= 10 GROUP BY burst
), places AS (
    SELECT burst, service, rack, count(*) AS senders FROM burst_names WHERE counted AND service IS NOT NULL GROUP BY ALL
), kinds AS (
    SELECT burst, service, CAST(sum(senders) AS BIGINT) AS senders,
           coalesce(list({rack: rack, senders: senders} ORDER BY senders DESC, rack) FILTER (rack IS NOT NULL), []) AS racks
    FROM places GROUP BY burst, service
), called AS (
    SELECT burst, list({service: service, senders: senders, racks: racks} ORDER BY senders DESC, service) AS services
    FROM kinds GROUP BY burst
)
SELECT burst, coalesce(top_sources, []) AS top_sources, coalesce(services, []) AS services
FROM (SELECT burst FROM bursts) LEFT JOIN tops USING (burst) LEFT JOIN called USING (burst);

CREATE OR REPLACE TEMP VIEW listed AS
SELECT host,               -- VARCHAR: as in `recordings`
       rack,               -- VARCHAR: as in `recordings`
       interface,          -- VARCHAR: as in `recordings`
       direction,          -- VARCHAR: as in `recordings`
       start_ns,           -- BIGINT: start of its first bin
       end_ns,             -- BIGINT: end of its last bin
       duration_ns,        -- BIGINT: end_ns - start_ns
       bytes,              -- BIGINT: in its time; link layer without FCS
       packets,            -- BIGINT: in its time
       mean_utilization,   -- DOUBLE: share of line rate over its whole time
       peak_utilization,   -- DOUBLE: utilization of its fullest bin of bin_ns
       sources,            -- BIGINT: distinct senders
       fan_in,             -- BIGINT: senders with at least half an equal share of the bytes
       effective_sources,  -- DOUBLE: 1 / sum of squared shares
       onset_spread_ns,    -- BIGINT: from the first frame in the burst of the first sender in fan_in to that of the last
       pattern,            -- VARCHAR: single-source, incast, many-sources, canary or unknown
       top_sources,        -- STRUCT[]: up to ten senders with the most bytes: source, bytes, share; name, service, rack (NULL: not known)
       services,           -- STRUCT[]: services of the fan-in, where known: service, senders, racks (rack, senders)
       quality_names(quality) AS quality,          -- VARCHAR[]: limits of the data of its bins, see `quality`
       recording_id,       -- VARCHAR: see `recordings`
       clock_epoch,        -- USMALLINT: as in `bins`
       bin_ns,             -- BIGINT: width of the bins in which it was detected
       link_bps            -- BIGINT: the line rate by which it was detected
FROM bursts JOIN burst_senders USING (burst)
ORDER BY burst;

FROM listed;
