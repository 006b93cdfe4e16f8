-- Utilization: a share of line rate. Wire bytes include preamble, FCS and gap; link_bps is the speed of one direction.
CREATE MACRO utilization(wire_bytes, span_ns, link_bps) AS wire_bytes * 8e9 / span_ns / link_bps;

-- The receiver of the traffic that a recording counts: its host, or for a switch port whatever is behind it (named
-- `DEVICE PORT`); NULL if no host receives it. Directions are those of the device that counts: `out` of a switch port
-- (backend `otlp`) is towards the attached host.
CREATE MACRO receiver_of(host, interface, direction, backend) AS CASE
    WHEN direction = CASE WHEN backend = 'otlp' THEN 'in' ELSE 'out' END THEN NULL
    WHEN backend = 'otlp' THEN host || ' ' || interface
    ELSE host END;

-- The same with the name of the host that is attached to the port; attached_host is NULL if it is not known.
CREATE MACRO named_receiver_of(host, interface, direction, backend, attached_host) AS CASE
    WHEN receiver_of(host, interface, direction, backend) IS NULL THEN NULL
    ELSE coalesce(attached_host, receiver_of(host, interface, direction, backend)) END;

-- Whether a host's own recording is of the interface that is attached to a switch port. While there is one, it counts
-- and the recording of the port does not.
CREATE MACRO is_behind_port(own_rack, own_receiver, own_interface, rack, receiver, attached_interface) AS
    own_rack = rack AND own_receiver = receiver AND attached_interface IN ('', own_interface);

-- When the interface behind each switch port was recorded by its own host, with lane and clock epoch. lane_rows has the
-- columns of `lanes` as bursts.sql creates it, recorded_rows those of `recorded`.
CREATE MACRO own_times_of(lane_rows, recorded_rows) AS TABLE
    SELECT port.lane, own.lane AS own_lane, recorded.clock_epoch, recorded.start_ns, recorded.end_ns
    FROM query_table(lane_rows) AS port JOIN query_table(lane_rows) AS own
        ON is_behind_port(own.rack, own.receiver, own.interface, port.rack, port.receiver, port.attached_interface)
    JOIN query_table(recorded_rows) AS recorded ON recorded.recording_id = own.recording_id
    WHERE port.backend = 'otlp' AND own.backend <> 'otlp';

-- The parts of bursts that were recorded, by the times of their recording and clock epoch in recorded_rows: a burst of wide
-- bins can begin before its recording and end after it.
CREATE MACRO recorded_parts(burst_rows, recorded_rows) AS TABLE
    SELECT found.* REPLACE (greatest(found.start_ns, own.start_ns) AS start_ns, least(found.end_ns, own.end_ns) AS end_ns)
    FROM query_table(burst_rows) AS found JOIN query_table(recorded_rows) AS own
        ON found.recording_id = own.recording_id AND found.clock_epoch = own.clock_epoch
        AND found.start_ns < own.end_ns AND found.end_ns > own.start_ns;

-- The recorded parts of the bursts that hosts received. burst_rows has the columns of `bursts` as bursts.sql creates it.
CREATE MACRO received_parts(burst_rows, recorded_rows) AS TABLE
    SELECT burst, rack, receiver, start_ns, end_ns FROM recorded_parts(burst_rows, recorded_rows) WHERE receiver IS NOT NULL;

-- Bursts of switch ports whose recorded parts lie in times of own_rows of one clock epoch of one recording (two epochs may
-- cover the same times if a clock was set back). They are counted in that recording and not at the port. A burst that
-- extends beyond these times is counted at the port, too.
CREATE MACRO counted_by_hosts(burst_rows, recorded_rows, own_rows) AS TABLE
    WITH parts AS (
        SELECT *, sum(end_ns - start_ns) OVER (PARTITION BY burst) AS whole_ns FROM recorded_parts(burst_rows, recorded_rows)
    )
    SELECT DISTINCT burst FROM (
        SELECT burst FROM parts AS found JOIN query_table(own_rows) AS own
            ON found.lane = own.lane AND found.start_ns < own.end_ns AND found.end_ns > own.start_ns
        GROUP BY burst, own_lane, own.clock_epoch, whole_ns
        HAVING sum(least(found.end_ns, own.end_ns) - greatest(found.start_ns, own.start_ns)) >= whole_ns);

-- When each host (or whatever is behind a switch port) received bursts, on any of its interfaces and in any recording:
-- without overlaps. burst_rows has the columns of received_parts; of `bursts`, the time of wide bins that was not recorded
-- counts, too.
CREATE MACRO received_times(burst_rows) AS TABLE
    WITH reached AS (
        SELECT rack, receiver AS host, start_ns, end_ns, max(end_ns) OVER earlier AS reached_ns
        FROM query_table(burst_rows) WHERE receiver IS NOT NULL
        WINDOW earlier AS (PARTITION BY rack, receiver ORDER BY start_ns, end_ns
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), placed AS (
        SELECT *, sum(CAST(coalesce(start_ns > reached_ns, true) AS INTEGER))
            OVER (PARTITION BY rack, host ORDER BY start_ns, end_ns) AS place FROM reached  -- no ROWS: rows with the same start and end have one place
    )
    SELECT rack, host, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM placed GROUP BY rack, host, place;

-- Rows of `links`, each with the time [since_ns, until_ns) in which its host is attached to its switch port. A row
-- holds until the next report of the same link; the first report of a host also holds before its time. If LLDP and the
-- configuration both name a link, the row of the configuration counts, and the other row keeps the rest of its time.
-- until_ns is NULL if no end is known.
CREATE MACRO link_periods(link_rows) AS TABLE
    WITH since AS (
        SELECT *, CASE WHEN ts_ns > min(ts_ns) OVER (PARTITION BY host) THEN ts_ns ELSE -9223372036854775808 END AS since_ns
        FROM query_table(link_rows)
    ), reported AS (
        SELECT *, lead(since_ns) OVER (PARTITION BY device, port, host, interface, origin ORDER BY ts_ns, present) AS until_ns FROM since
        QUALIFY present AND since_ns IS DISTINCT FROM until_ns
    ), configured AS (
        SELECT device, port, host, at_ns, sum(change) AS change FROM (
            SELECT device, port, host, since_ns AS at_ns, 1 AS change FROM reported WHERE origin = 'configuration'
            UNION ALL SELECT device, port, host, until_ns, -1 FROM reported WHERE origin = 'configuration' AND until_ns IS NOT NULL)
        GROUP BY ALL HAVING sum(change) <> 0
    ), unconfigured AS (
        SELECT device, port, host, at_ns AS begin_ns, lead(at_ns) OVER earlier AS finish_ns FROM configured
        WINDOW earlier AS (PARTITION BY device, port, host ORDER BY at_ns)
        QUALIFY sum(change) OVER (earlier ROWS UNBOUNDED PRECEDING) = 0
        UNION ALL SELECT device, port, host, -9223372036854775808, min(at_ns) FROM configured GROUP BY ALL
    )
    FROM reported WHERE origin = 'configuration'
    UNION ALL FROM reported ANTI JOIN configured USING (device, port, host) WHERE origin <> 'configuration'
    UNION ALL SELECT * EXCLUDE (finish_ns) REPLACE (least(until_ns, finish_ns) AS until_ns) FROM (
        SELECT reported.* REPLACE (greatest(since_ns, begin_ns) AS since_ns), finish_ns
        FROM reported JOIN unconfigured USING (device, port, host)
        WHERE origin <> 'configuration' AND coalesce(since_ns < finish_ns, true) AND coalesce(begin_ns < until_ns, true)
            AND begin_ns IS DISTINCT FROM finish_ns);

-- The links that hold at a time.
CREATE MACRO links_at(link_rows, at_ns) AS TABLE
    SELECT * EXCLUDE (until_ns) FROM (SELECT * EXCLUDE (since_ns) FROM link_periods(link_rows) WHERE since_ns <= at_ns)
    WHERE coalesce(at_ns < until_ns, true);

-- The host behind each switch port to which exactly one host is attached, and the first of its interfaces ('': not
-- known). A port with several attached hosts has no row.
CREATE MACRO attached_hosts(link_rows, at_ns) AS TABLE
    SELECT device, port, any_value(host) AS attached_host, min(interface) AS attached_interface
    FROM links_at(link_rows, at_ns) GROUP BY device, port HAVING count(DISTINCT host) = 1;

-- The key with which arg_max returns the first of the largest values; otherwise it may return any of several equal
-- ones. A HUGEINT.
CREATE MACRO first_largest(amount, ts_ns) AS CAST(amount AS HUGEINT) * 18446744073709551616 - ts_ns;

-- The longest time for which a number of pause quanta, 512 bit times each (IEEE 802.3 annex 31B), stops a link.
-- Nanoseconds.
CREATE MACRO pause_ns(pause_quanta, link_bps) AS pause_quanta * 512e9 / link_bps;

-- The frames that asked senders to slow down or to stop: for each recording, the sums of its bins in [since_ns,
-- until_ns). `bin_rows` names a table with the columns of `bins`. NULL: the version of mburst or the backend that
-- recorded the bins did not count these frames.
CREATE MACRO flow_controls(bin_rows, since_ns, until_ns) AS TABLE
SELECT recording_id, total(cnp_packets) AS cnp_packets, total(pause_frames) AS pause_frames,
       total(resume_frames) AS resume_frames, total(pause_quanta) AS pause_quanta, bit_or(pause_classes) AS pause_classes
FROM query_table(bin_rows) WHERE ts_ns >= since_ns AND ts_ns < until_ns GROUP BY recording_id;

-- The fewest wire bytes that fill a share of a bin. Computed in integers, so that rounding does not exclude a bin of
-- exactly that share; the share counts to nine digits.
CREATE MACRO least_bytes(share, bin_ns, link_bps) AS
    CAST((CAST(round(share * 1e9) AS HUGEINT) * bin_ns * link_bps + 7999999999999999999) // 8000000000000000000 AS BIGINT);

-- The number of the bin that contains a time, counted from 1970 and downwards before it, and the start of that bin.
-- `//` alone rounds towards 1970; % and CASE cost several times as much.
CREATE MACRO bin_number(ns, bin_ns) AS (ns + (ns >> 63) * (bin_ns - 1)) // bin_ns;
CREATE MACRO bin_start(ns, bin_ns) AS bin_number(ns, bin_ns) * bin_ns;

-- A width of bins as text, exactly.
CREATE MACRO width_text(ns) AS CASE
    WHEN ns % 1000000000 = 0 THEN ns // 1000000000 || ' s'
    WHEN ns % 1000000 = 0 THEN ns // 1000000 || ' ms'
    WHEN ns % 1000 = 0 THEN ns // 1000 || ' µs'
    ELSE ns || ' ns' END;

-- The number of stored bins in a bin of the width that is asked for. Any width other than a multiple is an error.
CREATE MACRO stored_bins(width_ns, bin_ns, host, interface, direction, recording_id) AS CASE
    WHEN width_ns > 0 AND width_ns % bin_ns = 0 THEN width_ns // bin_ns
    ELSE error('usage: a bin of ' || width_text(width_ns) || ' is not a multiple of the ' || width_text(bin_ns)
        || ' in which recording ' || recording_id || ' (' || host || ' ' || interface || ' ' || direction
        || ') was recorded (choose a multiple of ' || width_text(bin_ns) || ', or another host or interface)') END;

-- The part of an amount that falls in [from_ns, to_ns), if the amount was sent evenly from first_ns to last_ns. As DOUBLE,
-- since bytes of a second at 100 Gb/s times its nanoseconds are no BIGINT.
CREATE MACRO part_within(amount, first_ns, last_ns, from_ns, to_ns) AS
    CAST(amount AS DOUBLE) * greatest(0, least(last_ns + 1, to_ns) - greatest(first_ns, from_ns)) / (last_ns + 1 - first_ns);

-- Range joins on time use slots of 2^bits nanoseconds. They are wide enough to hold 32 rows that are row_ns apart, and
-- wide enough that ranges of span_ns in total touch about a million slots.
CREATE MACRO slot_bits(row_ns, span_ns) AS CAST(ceil(log2(greatest(32 * row_ns, span_ns / 1e6))) AS INTEGER);

-- The names of the bits that are set in a quality.
CREATE MACRO quality_names(bits) AS
    coalesce((SELECT list(name ORDER BY bit) FROM quality WHERE bits & bit <> 0), []);

-- Whether a device's figure is usable: the bit `impossible` marks figures that its port cannot reach.
CREATE MACRO believable(quality) AS quality & 1024 = 0;
-- Whether a gap follows a recording that broke off. Gaps of other reasons lie within their recording.
CREATE MACRO is_behind_recording(reason) AS reason IN ('killed', 'power', 'disk full', 'failed');

-- Whether the packets of a gap are also in recordings.dropped.
CREATE MACRO counts_as_dropped(reason) AS reason IN ('dropped', 'reader too slow');

-- The depth of a queue in a window: the maximum if the device reports it, otherwise the mean, which is no larger.
CREATE MACRO queue_depth(max_bytes, avg_bytes) AS coalesce(max_bytes, avg_bytes);

-- Whether a window reaches into [since_ns, until_ns). A window without a length is a moment.
CREATE MACRO window_within(window_start_ns, ts_ns, since_ns, until_ns) AS
    window_start_ns < until_ns AND greatest(ts_ns, window_start_ns + 1) > since_ns;

-- Whether a probe met a burst: some of the time [first_ns, last_ns] in which it may have crossed the port is in the
-- burst, [start_ns, end_ns). If the port is not known, that is the whole time for which the probe was under way; the
-- investigation knows it to a bin (analysis/cause/evidence/exposure.py has the same rule in numpy).
CREATE MACRO met_burst(first_ns, last_ns, start_ns, end_ns) AS start_ns <= last_ns AND end_ns > first_ns;

-- When a recording counted, in whole bins: from the bin of its first packet to the end of the bin of its last. The
-- end_ns of a complete recording is its last packet; the end_ns of any other is the end of its last bin.
CREATE MACRO recorded_from(start_ns, bin_ns) AS bin_start(start_ns, bin_ns);
CREATE MACRO recorded_until(end_ns, bin_ns, complete) AS
    bin_start(end_ns - CASE WHEN complete THEN 0 ELSE 1 END, bin_ns) + bin_ns;
-- Whether the row of a recording is enough to compute these. For other recordings, the bins are needed.
CREATE MACRO is_span_known(clock_epochs, start_ns, end_ns) AS
    coalesce(clock_epochs = 1 AND start_ns IS NOT NULL AND end_ns IS NOT NULL, false);

-- A nearest-rank quantile: a value that occurred. NULL if there are too few values to distinguish it from the largest;
-- the median is defined for any number of values.
CREATE MACRO known_quantile(value, share) AS
    CASE WHEN share <= 0.5 OR count(value) * (1 - share) >= 1 - 1e-9 THEN quantile_disc(value, share) END;

-- The host of an end of a probed path, without the source port that is appended if a path is probed from several ports
-- (`api:40001`, `[2001:db8::1]:40001`).
CREATE MACRO probe_host(path_end) AS CASE
    WHEN regexp_full_match(path_end, '[^:\[\]]+:[0-9]+') THEN split_part(path_end, ':', 1)
    WHEN regexp_full_match(path_end, '\[.+\]:[0-9]+') THEN regexp_extract(path_end, '^\[(.+)\]:[0-9]+$', 1)
    ELSE path_end END;

-- Whether a probe came back after it had left, as far as both times are known. If it did not, the clock of its sender
-- was set back in between: stamps after that do not show how long it took.
CREATE MACRO in_order(app_send_ns, tx_ns, rx_ns, app_recv_ns) AS
    coalesce(rx_ns >= tx_ns, true) AND coalesce(app_recv_ns >= app_send_ns, true);

-- The latency of a probe by one measure; NULL if it was not measured. One-way delays are NULL: they include the offset
-- between two clocks, which a single probe does not determine.
CREATE MACRO latency_by(measure, app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns, rtt_ns) AS
    CASE WHEN in_order(app_send_ns, tx_ns, rx_ns, app_recv_ns) THEN CASE measure
        WHEN 'application' THEN app_recv_ns - app_send_ns
        WHEN 'network round trip' THEN rx_ns - tx_ns - (remote_tx_ns - remote_rx_ns)
        WHEN 'round trip' THEN rx_ns - tx_ns
        WHEN 'reported round trip' THEN rtt_ns
        WHEN 'round trip to the application' THEN app_recv_ns - tx_ns
    END END;

-- The measure of a path, chosen once for all of its probes, so that no distribution mixes two: the first in this order
-- that is known for at least half as many answers as the measure that is known for most. NULL if nothing was measured.
-- COUNTS are the numbers of answers for which each of measure_names() is known.
CREATE MACRO measure_names() AS ['application', 'network round trip', 'round trip', 'reported round trip',
                                 'round trip to the application', 'one way'];
CREATE MACRO chosen_measure(counts) AS measure_names()[list_position(
    list_transform(counts, lambda n: n > 0 AND 2 * n >= list_max(counts)), true)];

-- The number of answers for which each measure is known, for each path and the probes sent in [since_ns, until_ns).
-- `probe_rows` names a table with the columns of `probes`; a batch of NULL takes all.
CREATE MACRO known_measures(probe_rows, since_ns, until_ns, one_batch) AS TABLE
SELECT src, dst, protocol, count(*) AS sent, count(*) FILTER (lost) AS lost,
       count(latency_by('application', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                        rtt_ns)) FILTER (NOT lost) AS application,
       count(latency_by('network round trip', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                        rtt_ns)) FILTER (NOT lost) AS network,
       count(latency_by('round trip', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                        rtt_ns)) FILTER (NOT lost) AS round_trip,
       count(latency_by('reported round trip', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                        rtt_ns)) FILTER (NOT lost) AS reported,
       count(latency_by('round trip to the application', app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                        rtt_ns)) FILTER (NOT lost) AS to_application,
       count(remote_rx_ns - tx_ns) FILTER (NOT lost) AS one_way
FROM query_table(probe_rows)
WHERE tx_ns >= since_ns AND tx_ns < until_ns AND coalesce(batch = one_batch, true)
GROUP BY src, dst, protocol;

CREATE MACRO path_measures(probe_rows, since_ns, until_ns, one_batch) AS TABLE
SELECT *, chosen_measure([application, network, round_trip, reported, to_application, one_way]) AS measure,
       chosen_measure([0, network, round_trip, reported, 0, 0]) AS round_trip_measure
FROM known_measures(probe_rows, since_ns, until_ns, one_batch);

-- The probes sent in [since_ns, until_ns), each with the measure of its path, its latency by that measure, and its
-- round trip, which is also by one measure for the whole path.
CREATE MACRO measured_probes(probe_rows, since_ns, until_ns, one_batch) AS TABLE
SELECT p.*, measure,
       CASE WHEN NOT p.lost THEN latency_by(measure, app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns, app_recv_ns,
                                            rtt_ns) END AS latency_ns,
       CASE WHEN NOT p.lost THEN latency_by(round_trip_measure, app_send_ns, tx_ns, remote_rx_ns, remote_tx_ns, rx_ns,
                                            app_recv_ns, rtt_ns) END AS round_trip_ns
FROM (FROM query_table(probe_rows)
      WHERE tx_ns >= since_ns AND tx_ns < until_ns AND coalesce(batch = one_batch, true)) p
JOIN (SELECT src, dst, protocol, measure, round_trip_measure
      FROM path_measures(probe_rows, since_ns, until_ns, one_batch)) USING (src, dst, protocol);

-- The latency of each path in [since_ns, until_ns).
CREATE MACRO path_latencies(probe_rows, since_ns, until_ns, one_batch) AS TABLE
SELECT src, dst, protocol, measure, count(*) AS sent, count(*) FILTER (lost) AS lost, count(latency_ns) AS measured,
       known_quantile(latency_ns, 0.5) AS p50_ns, known_quantile(latency_ns, 0.99) AS p99_ns,
       known_quantile(latency_ns, 0.999) AS p999_ns, max(latency_ns) AS max_ns,
       coalesce(string_agg(DISTINCT nullif(stamp_kind, ''), ', ' ORDER BY nullif(stamp_kind, '')), '') AS stamps
FROM measured_probes(probe_rows, since_ns, until_ns, one_batch) GROUP BY src, dst, protocol, measure;

-- The bucket of a latency in histograms that can be merged, and the value that represents a bucket: within 1 % of every
-- latency in it (DDSketch, Masson, Rim and Lee, VLDB 2019: bucket i holds values above g^(i-1) up to g^i, with g = (1 +
-- 1 %) / (1 - 1 %)). Bucket -1 holds 0; the buckets below it hold negative latencies, the largest first.
CREATE MACRO latency_bucket(ns) AS CAST(
    CASE WHEN ns > 0 THEN ceil(ln(ns) / ln(1.01 / 0.99)) WHEN ns = 0 THEN -1 ELSE -2 - ceil(ln(-ns) / ln(1.01 / 0.99)) END
    AS BIGINT);
CREATE MACRO bucket_latency(bucket) AS
    CASE WHEN bucket >= 0 THEN 2 * (1.01 / 0.99) ** bucket / (1.01 / 0.99 + 1) WHEN bucket = -1 THEN 0.0
    ELSE -2 * (1.01 / 0.99) ** (-2 - bucket) / (1.01 / 0.99 + 1) END;

-- Sums of the probes of each second and path, with the columns of latency_steps.
CREATE MACRO probed_seconds(probe_rows) AS TABLE
WITH answers AS (
    SELECT src, dst, protocol, coalesce(measure, '') AS measure, bin_start(tx_ns, 1000000000) AS ts_ns, lost, latency_ns,
           latency_bucket(latency_ns) AS bucket
    FROM measured_probes(probe_rows, -9223372036854775808, 9223372036854775807, CAST(NULL AS VARCHAR))
), buckets AS (
    SELECT src, dst, protocol, measure, ts_ns, bucket, count(*) AS sent, count(*) FILTER (lost) AS lost,
           count(latency_ns) AS measured, sum(latency_ns) AS sum_ns, min(latency_ns) AS min_ns, max(latency_ns) AS max_ns
    FROM answers GROUP BY ALL
)
SELECT src, dst, protocol, measure, ts_ns, CAST(sum(sent) AS BIGINT) AS sent, CAST(sum(lost) AS BIGINT) AS lost,
       CAST(sum(measured) AS BIGINT) AS measured, CAST(sum(sum_ns) AS BIGINT) AS sum_ns, min(min_ns) AS min_ns,
       max(max_ns) AS max_ns,
       coalesce(string_agg(bucket || ':' || measured, ' ' ORDER BY bucket) FILTER (bucket IS NOT NULL), '') AS histogram
FROM buckets GROUP BY src, dst, protocol, measure, ts_ns;

-- The quantile of merged buckets, by the rules of known_quantile: the value of the first bucket at which UPTO (the
-- number of values in this and lower buckets) reaches the share of TOTAL.
CREATE MACRO merged_quantile(bucket, upto, total, share) AS
    CASE WHEN share <= 0.5 OR any_value(total) * (1 - share) >= 1 - 1e-9
    THEN bucket_latency(min(bucket) FILTER (upto >= total * share)) END;

-- The latency of each path in the seconds that begin in [since_ns, until_ns), from their buckets. `second_rows` names a
-- table with the columns of latency_steps.
CREATE MACRO path_quantiles_in(second_rows, since_ns, until_ns) AS TABLE
WITH seconds AS (
    FROM query_table(second_rows) WHERE ts_ns >= since_ns AND ts_ns < until_ns
), parts AS (
    SELECT src, dst, protocol, measure, string_split(unnest(string_split(histogram, ' ')), ':') AS part
    FROM seconds WHERE histogram <> ''
), buckets AS (
    SELECT src, dst, protocol, measure, CAST(part[1] AS BIGINT) AS bucket, sum(CAST(part[2] AS BIGINT)) AS n
    FROM parts GROUP BY ALL
), ranked AS (
    SELECT *, sum(n) OVER (PARTITION BY src, dst, protocol, measure ORDER BY bucket) AS upto,
           sum(n) OVER (PARTITION BY src, dst, protocol, measure) AS total
    FROM buckets
), quantiles AS (
    SELECT src, dst, protocol, measure, merged_quantile(bucket, upto, total, 0.5) AS p50_ns,
           merged_quantile(bucket, upto, total, 0.99) AS p99_ns, merged_quantile(bucket, upto, total, 0.999) AS p999_ns
    FROM ranked GROUP BY ALL
)
SELECT s.src, s.dst, s.protocol, s.measure, CAST(sum(sent) AS BIGINT) AS sent, CAST(sum(lost) AS BIGINT) AS lost,
       CAST(sum(measured) AS BIGINT) AS measured, sum(sum_ns) / nullif(sum(measured), 0) AS mean_ns, min(min_ns) AS min_ns,
       any_value(p50_ns) AS p50_ns, any_value(p99_ns) AS p99_ns, any_value(p999_ns) AS p999_ns, max(max_ns) AS max_ns
FROM seconds s LEFT JOIN quantiles USING (src, dst, protocol, measure)
GROUP BY s.src, s.dst, s.protocol, s.measure;

-- Whether a port can have the figures of a queue window at all: no port drops or marks 2^48 packets, or sends or holds
-- 2^60 bytes, in one window (at 10 Tb/s and full load, that takes 5 hours with the smallest frames, and 10 days).
CREATE MACRO conceivable(any_bytes, any_packets) AS
    coalesce(any_bytes, 0) < 1152921504606846976 AND coalesce(any_packets, 0) < 281474976710656;

-- Whether a queue is before the output of its port. Those at its input have names that begin with `in:` or `voq:`.
CREATE MACRO is_of_output(queue) AS NOT (starts_with(queue, 'in:') OR starts_with(queue, 'voq:'));

-- The queue of the same port that has, if there is one, the packets of this queue, too; NULL if none can: `0` of the switch
-- agent is all that waits at a port, also in classes such as `1:10`, and a class of IOS XR has those of its child policy.
CREATE MACRO whole_queue(queue) AS CASE
    WHEN regexp_full_match(queue, '[0-9a-f]{1,4}:[0-9a-f]{1,4}') THEN '0'
    ELSE nullif(regexp_extract(queue, '^([^/]+/[^/]+)/.+$', 1), '') END;

-- Rows of queue windows, and whether their counts are the port's: those at its output, unless a window of the whole queue
-- (whole_queue) among the rows overlaps them. `window_rows` names a table with device, port, queue, window_start_ns and ts_ns
-- whose rows all have the count in question.
CREATE MACRO windows_of_port(window_rows) AS TABLE
WITH parts AS MATERIALIZED (
    SELECT DISTINCT device, port, whole_queue(queue) AS queue FROM query_table(window_rows) WHERE whole_queue(queue) IS NOT NULL
), wholes AS (  -- until when the windows reach that begin up to this one
    SELECT device, port, queue, window_start_ns AS whole_start_ns,
           max(ts_ns) OVER (PARTITION BY device, port, queue ORDER BY window_start_ns) AS reached_ns
    FROM query_table(window_rows) SEMI JOIN parts USING (device, port, queue)
)
SELECT given.*, is_of_output(given.queue) AND coalesce(reached_ns <= window_start_ns, true) AS is_of_port
FROM query_table(window_rows) AS given ASOF LEFT JOIN wholes ON given.device = wholes.device AND given.port = wholes.port
    AND whole_queue(given.queue) = wholes.queue AND given.ts_ns > wholes.whole_start_ns;

-- A sum of whole numbers, limited to the largest BIGINT, so that no query fails because of figures that a device
-- invents.
CREATE MACRO total(amount) AS
    CAST(CASE WHEN sum(amount) < 9223372036854775807 THEN sum(amount) WHEN sum(amount) IS NOT NULL THEN 9223372036854775807 END
         AS BIGINT);

-- Whether a window of a queue is usable.
CREATE MACRO believable_window(quality, max_bytes, avg_bytes, transmit_bytes, dropped_packets, ecn_marked_packets) AS
    believable(quality)
    AND conceivable(greatest(max_bytes, avg_bytes, transmit_bytes), greatest(dropped_packets, ecn_marked_packets));

-- Which counters a queue window has: one bit for each.
CREATE MACRO counters_of(transmit_bytes, dropped_packets, ecn_marked_packets) AS
    CASE WHEN transmit_bytes IS NULL THEN 0 ELSE 1 END | CASE WHEN dropped_packets IS NULL THEN 0 ELSE 2 END
    | CASE WHEN ecn_marked_packets IS NULL THEN 0 ELSE 4 END;

-- Windows of queues whose counters stand in others as well, with the bits of these counters. Two collections that ask one
-- switch count the same packets: where their windows overlap, those of the one with the least holes count, then of the one
-- with the narrowest (to a factor of four). So do windows of one collection that have the same counters in several such
-- widths, as where a file has those of milliseconds and those of seconds. Other windows of one collection may overlap, since
-- counters change at different times: all of them count. What one missed, and the other counted in a window that reaches
-- into those of the first, is left out: no packet counts twice. Nearly always there is no row, since there was one collection
-- of a queue at a time, of one width; then no window is looked at.
CREATE MACRO counted_elsewhere(queue_rows, since_ns, until_ns) AS TABLE
WITH windows AS NOT MATERIALIZED (
    SELECT device, port, queue, batch, window_start_ns, ts_ns,
           counters_of(transmit_bytes, dropped_packets, ecn_marked_packets) AS counters,
           {counters: counters, width: floor((log2(ts_ns - window_start_ns) + 1) / 2)} AS kind
    FROM query_table(queue_rows)
    WHERE window_within(window_start_ns, ts_ns, since_ns, until_ns) AND ts_ns > window_start_ns AND counters > 0
      AND believable_window(quality, max_bytes, avg_bytes, transmit_bytes, dropped_packets, ecn_marked_packets)
), feeds AS MATERIALIZED (
    SELECT device, port, queue, batch, kind, min(window_start_ns) AS first_ns, max(ts_ns) AS last_ns,
           sum(ts_ns - window_start_ns) AS covered_ns, count(*) AS n
    FROM windows GROUP BY device, port, queue, batch, kind
), ranked AS (
    SELECT device, port, queue, batch, kind, first_ns, last_ns,
           sum(covered_ns) OVER whole < 0.9 * (max(last_ns) OVER whole - min(first_ns) OVER whole) AS holes,
           floor((log2(sum(covered_ns) OVER whole / sum(n) OVER whole) + 1) / 2) AS width,
           {holes: covered_ns < 0.9 * (last_ns - first_ns), width: kind.width} AS own_place
    FROM feeds WINDOW whole AS (PARTITION BY device, port, queue, batch)
), placed AS (
    SELECT *, dense_rank() OVER (PARTITION BY device, port, queue ORDER BY holes, width, batch) AS place FROM ranked
), pairs AS (
    SELECT device, port, queue, later.batch, later.kind, former.batch AS other_batch, former.kind AS other_kind
    FROM placed later JOIN placed former USING (device, port, queue)
    WHERE (former.place < later.place AND former.kind.counters & later.kind.counters <> 0
           OR former.batch = later.batch AND former.kind.counters = later.kind.counters AND former.own_place < later.own_place)
      AND former.first_ns < later.last_ns AND former.last_ns > later.first_ns
), asked AS (
    FROM windows WHERE list_contains((SELECT coalesce(list(DISTINCT device), []) FROM pairs), device)
), reached AS (  -- until when the windows of a feed reach that begin up to this one
    SELECT *, max(ts_ns) OVER (PARTITION BY device, port, queue, batch, kind ORDER BY window_start_ns) AS reached_ns
    FROM asked
)
SELECT w.device, w.port, w.queue, w.batch, w.window_start_ns, w.ts_ns, w.counters AS own,
       bit_or(w.counters & w.other_kind.counters) AS counters
FROM (FROM asked JOIN pairs USING (device, port, queue, batch, kind)) w ASOF JOIN reached r
    ON w.device = r.device AND w.port = r.port AND w.queue = r.queue AND w.other_batch = r.batch
    AND w.other_kind = r.kind AND w.ts_ns > r.window_start_ns
WHERE r.reached_ns > w.window_start_ns
GROUP BY ALL;

-- The windows of [since_ns, until_ns), each once regardless of how many collections reported it, and whether it is
-- usable. A counter is NULL if windows of another collection have what it counted.
CREATE MACRO reported_windows(queue_rows, since_ns, until_ns) AS TABLE
SELECT min(batch) AS batch, device, port, queue, semantics, window_start_ns, ts_ns,
       queue_depth(max_bytes, avg_bytes) AS depth_bytes, max_bytes, avg_bytes,
       max(CASE WHEN coalesce(elsewhere.counters, 0) & 1 = 0 THEN transmit_bytes END) AS transmit_bytes,
       max(CASE WHEN coalesce(elsewhere.counters, 0) & 2 = 0 THEN dropped_packets END) AS dropped_packets,
       max(CASE WHEN coalesce(elsewhere.counters, 0) & 4 = 0 THEN ecn_marked_packets END) AS ecn_marked_packets,
       bit_or(quality) AS quality,
       believable_window(quality, max_bytes, avg_bytes, transmit_bytes, dropped_packets, ecn_marked_packets) AS believed
FROM (SELECT *, counters_of(transmit_bytes, dropped_packets, ecn_marked_packets) AS own FROM query_table(queue_rows))
LEFT JOIN counted_elsewhere(queue_rows, since_ns, until_ns) AS elsewhere
    USING (device, port, queue, batch, window_start_ns, ts_ns, own)
WHERE window_within(window_start_ns, ts_ns, since_ns, until_ns)
GROUP BY device, port, queue, semantics, window_start_ns, ts_ns, max_bytes, avg_bytes, believed;

-- The usable ones of these windows.
CREATE MACRO believable_windows(queue_rows, since_ns, until_ns) AS TABLE
SELECT * EXCLUDE (believed) FROM reported_windows(queue_rows, since_ns, until_ns) WHERE believed;

-- The number of unusable windows of each queue.
CREATE MACRO impossible_windows(queue_rows, since_ns, until_ns) AS TABLE
SELECT device, port, queue, semantics, count(*) AS impossible
FROM reported_windows(queue_rows, since_ns, until_ns) WHERE NOT believed
GROUP BY device, port, queue, semantics;

-- An address as text: a letter for its kind, then its bits, so that a prefix of the network is a prefix of the text.
-- `4` and 32 bits, `6` and 128 bits, or `m` and a MAC address unchanged. NULL: not an address.
CREATE MACRO ipv4_bits(address) AS CASE WHEN regexp_full_match(address, '\d{1,3}(\.\d{1,3}){3}') THEN list_reduce(
    list_transform(string_split(address, '.'), lambda part: lpad(bin(TRY_CAST(part AS UTINYINT)), 8, '0')),
    lambda a, b: a || b) END;
CREATE MACRO hextet_bits(hextets) AS CASE WHEN hextets = '' THEN '' ELSE list_reduce(
    list_transform(string_split(hextets, ':'), lambda part: CASE WHEN contains(part, '.') THEN ipv4_bits(part)
        WHEN regexp_full_match(part, '[0-9a-fA-F]{1,4}') THEN lpad(bin(CAST('0x' || part AS USMALLINT)), 16, '0') END),
    lambda a, b: a || b) END;
CREATE MACRO filled_bits(first_bits, last_bits) AS
    first_bits || repeat('0', 128 - length(first_bits) - length(last_bits)) || last_bits;
CREATE MACRO ipv6_bits(address) AS CASE
    WHEN address LIKE '%::%::%' THEN NULL
    WHEN contains(address, '::') THEN filled_bits(hextet_bits(split_part(address, '::', 1)),
                                                  hextet_bits(split_part(address, '::', 2)))
    ELSE hextet_bits(address) END;
CREATE MACRO address_bits(address) AS CASE
    WHEN regexp_full_match(address, '([0-9a-f]{2}:){5}[0-9a-f]{2}') THEN 'm' || address
    WHEN NOT contains(address, ':') THEN '4' || ipv4_bits(address)
    WHEN length(ipv6_bits(address)) = 128 THEN '6' || ipv6_bits(address) END;
CREATE MACRO prefix_bits(prefix) AS CASE WHEN contains(prefix, '/')
    THEN left(address_bits(split_part(prefix, '/', 1)), 1 + TRY_CAST(split_part(prefix, '/', 2) AS INTEGER))
    ELSE address_bits(prefix) END;

-- The name of each address at a time. `asked_rows` names a table of address and at_ns, each pair once. Each of name,
-- service, rack and owner is that of the longest prefix that has one; for the same prefix, a CSV file counts before
-- other sources, then the newest import counts. An address whose only name is that of a network or a service is named
-- by that name followed by the address. Addresses without any of these have no row.
CREATE MACRO named_at(asked_rows) AS TABLE
WITH keyed AS MATERIALIZED (
    SELECT name, service, located, owner, coalesce(from_ns, -9223372036854775808) AS from_ns,
           coalesce(until_ns, 9223372036854775807) AS until_ns, prefix_bits(prefix) AS bits, NOT contains(prefix, '/') AS single,
           {longest: -length(bits), csv: kind <> 'csv', newest: -imported_ns, latest: ~from_ns, origin: origin} AS place
    FROM names
), addresses AS MATERIALIZED (
    SELECT address, address_bits(address) AS bits FROM (SELECT DISTINCT address FROM query_table(asked_rows))
), keys AS MATERIALIZED (
    SELECT DISTINCT address, left(addresses.bits, width) AS bits
    FROM addresses CROSS JOIN (SELECT DISTINCT length(bits) AS width FROM keyed)
), candidates AS MATERIALIZED (
    FROM keys JOIN keyed USING (bits)
), edges AS (  -- times at which something may change
    SELECT DISTINCT address, unnest([-9223372036854775808, from_ns, until_ns]) AS begin_ns FROM candidates
), spans AS (
    SELECT address, begin_ns, arg_min(name, {place: place, value: name}) FILTER (name <> '' AND single) AS own_name,
           arg_min(name, {place: place, value: name}) FILTER (name <> '') AS any_name,
           arg_min(service, {place: place, value: service}) FILTER (service <> '') AS service,
           arg_min(located, {place: place, value: located}) FILTER (located <> '') AS rack,
           arg_min(owner, {place: place, value: owner}) FILTER (owner <> '') AS owner
    FROM edges JOIN candidates USING (address)
    WHERE from_ns <= begin_ns AND begin_ns < until_ns
    GROUP BY address, begin_ns
    UNION ALL BY NAME  -- times at which nothing holds
    SELECT address, begin_ns FROM edges ANTI JOIN candidates
        ON edges.address = candidates.address AND from_ns <= begin_ns AND begin_ns < until_ns
)
SELECT asked.address, asked.at_ns, coalesce(own_name, coalesce(any_name, service) || ' ' || asked.address) AS name, service, rack,
       owner
FROM (FROM query_table(asked_rows)) AS asked ASOF JOIN spans ON asked.address = spans.address AND asked.at_ns >= spans.begin_ns
WHERE coalesce(any_name, service, rack, owner) IS NOT NULL;

-- A time as text. For arithmetic, use the integer.
CREATE MACRO utc(ns) AS make_timestamp_ns(ns);
