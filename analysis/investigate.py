"""From a store to findings: which ports and paths there are, which crosses which, and what the evidence says of each.

The only part of the investigation that reads the store. Everything else is arithmetic over the arrays that it makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MburstError
from . import cause, fanin, queue
from .cause import Evidence, Queue, Scene
from .ledger import Crossing
from .port import CHUNK, Port, port_from_bins
from .stats import Floats, benjamini_hochberg
from .tail import DEFAULT, Probes, Rule
from .verdict import Verdict, decide

if TYPE_CHECKING:
    import duckdb

    from .bursts import BurstDefinition

LOSING = 32  # the bit of quality that says packets were dropped meanwhile (sql/schema/quality.sql)
STAMPS = ("app_send_ns", "tx_ns", "remote_rx_ns", "remote_tx_ns", "rx_ns", "app_recv_ns")


@dataclass(frozen=True)
class Question:
    """What to judge. known_as: names by which the probes call the recorded host, where they differ."""

    definition: BurstDefinition
    rule: Rule = DEFAULT
    link_bps: int | None = None
    hosts: tuple[str, ...] = ()
    known_as: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    seed: int = 1


@dataclass(frozen=True)
class Finding:
    """One path: what was looked at, the evidence, and what it amounts to."""

    scene: Scene
    evidence: Evidence
    verdict: Verdict


@dataclass
class Investigation:
    """The answer. Times in arrays are ns since `origin_ns` (Unix). findings: the one that decides `cause` comes
    first."""

    origin_ns: int
    ports: list[Port]
    findings: list[Finding]
    bursts: list[dict[str, Any]]
    groups: list[fanin.Group] = field(default_factory=list)
    contention: fanin.Contention | None = None
    prediction: queue.Prediction | None = None
    replay: queue.Replay | None = None
    outcomes: list[queue.Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def cause(self) -> str:
        return self.findings[0].verdict.cause if self.findings else "undetermined"


def investigate(con: duckdb.DuckDBPyConnection, question: Question) -> Investigation:
    """Judge what the store behind `con` holds. Raises MburstError where there is nothing at all to judge."""
    runs = read_runs(con, question)
    paths = read_paths(con, question)
    if not runs and not paths:
        raise MburstError(
            "the store holds neither recordings nor probes", "`mburst record` and `mburst probe` make some"
        )
    notes: list[str] = []
    missing: list[str] = []
    chosen = choose_runs(runs, notes, missing)
    origin = origin_of(chosen, paths)
    ports = [read_port(con, lane, rows, origin) for lane, rows in chosen.items()]
    bursts = read_bursts(con, question, chosen)
    scenes = make_scenes(con, question, ports, bursts, paths, origin, notes)
    findings = judge(scenes, question.seed)
    answer = Investigation(origin, ports, findings, bursts, notes=notes)
    answer.missing = missing + (
        [] if paths else ["probes: there are none in this time (`mburst probe`, `mburst import probes`)"]
    )
    answer.missing += [] if ports or missing else ["a recording of the port (`mburst record`)"]
    if bursts:
        answer.groups = fanin.groups(con, main_bursts(answer))
        answer.contention = fanin.contention(bursts)
    answer.replay = replay_of(answer)
    if answer.replay is not None:
        answer.outcomes = queue.what_if(answer.replay, queue.usual_changes(answer.replay))
    answer.prediction = queue.predict_from_senders(
        ports, windows_of(findings), findings[0].evidence.crossing if findings else None
    )
    return answer


def read_runs(con: duckdb.DuckDBPyConnection, question: Question) -> list[dict[str, Any]]:
    """Recorded stretches: a run and clock epoch each, with its first and last bin."""
    result = con.execute(
        """SELECT r.run, r.host, r.rack, r.interface, r.direction, coalesce($link, r.link_bps) AS link_bps, r.bin_ns,
                  b.epoch, b.first_ns, b.last_ns + r.bin_ns AS end_ns, r.dropped, r.notes
           FROM runs r JOIN (SELECT run, epoch, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM bins GROUP BY ALL) b
             USING (run)
           WHERE (len($hosts) = 0 OR list_contains($hosts, r.host))
             AND b.first_ns < coalesce($until, 9223372036854775807) AND b.last_ns >= coalesce($since, 0)
           ORDER BY r.host, r.interface, r.direction, b.first_ns, r.run""",
        {
            "link": question.link_bps,
            "hosts": list(question.hosts),
            "since": question.since_ns,
            "until": question.until_ns,
        },
    )
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def read_paths(con: duckdb.DuckDBPyConnection, question: Question) -> list[tuple[str, str, str, int, int]]:
    """src, dst, protocol, first and last tx of each probed path."""
    rows: list[tuple[str, str, str, int, int]] = con.execute(
        """SELECT src, dst, protocol, min(tx_ns), max(tx_ns) FROM probes
           WHERE tx_ns < coalesce($until, 9223372036854775807) AND tx_ns >= coalesce($since, 0)
           GROUP BY ALL ORDER BY ALL""",
        {"since": question.since_ns, "until": question.until_ns},
    ).fetchall()
    return rows


def choose_runs(
    runs: list[dict[str, Any]], notes: list[str], missing: list[str]
) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """By lane, the stretches that do not overlap (the same time recorded twice must not count twice), of one bin
    width."""
    chosen: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        lane = (run["host"], run["interface"], run["direction"])
        if run["link_bps"] is None:
            missing.append(f"the speed of {' '.join(lane)} (`--link 10G`)")
            continue
        kept = chosen.setdefault(lane, [])
        if kept and (run["first_ns"] < kept[-1]["end_ns"] or run["bin_ns"] != kept[-1]["bin_ns"]):
            notes.append(f"{' '.join(lane)}: run {run['run']} overlaps another or has other bins; it is left out")
            continue
        kept.append(run)
    return chosen


def origin_of(chosen: dict[tuple[str, str, str], list[dict[str, Any]]], paths: list[Any]) -> int:
    """A Unix time at or before everything, at which bins of every width begin."""
    widths = [run["bin_ns"] for rows in chosen.values() for run in rows]
    first = min([run["first_ns"] for rows in chosen.values() for run in rows] + [path[3] for path in paths])
    step = math.lcm(*widths) if widths else 1
    return int(first // step * step)


def read_port(
    con: duckdb.DuckDBPyConnection, lane: tuple[str, str, str], rows: list[dict[str, Any]], origin: int
) -> Port:
    """The bins of a lane's chosen runs."""
    con.execute("CREATE OR REPLACE TEMP TABLE chosen (run VARCHAR, epoch USMALLINT)")
    con.executemany("INSERT INTO chosen VALUES (?, ?)", [[run["run"], run["epoch"]] for run in rows])
    lossy = con.execute(
        f"SELECT ts_ns - ? AS at FROM bins SEMI JOIN chosen USING (run, epoch) WHERE quality & {LOSING} <> 0", [origin]
    ).fetchnumpy()["at"]
    reader = con.sql(
        f"SELECT ts_ns - {origin} AS at, wire_bytes FROM bins SEMI JOIN chosen USING (run, epoch)"
    ).to_arrow_reader(CHUNK)
    chunks = ((batch["at"].to_numpy().astype(np.float64), batch["wire_bytes"].to_numpy()) for batch in reader)
    recorded = [(float(run["first_ns"] - origin), float(run["end_ns"] - origin)) for run in rows]
    first = rows[0]
    return port_from_bins(
        lane, first["link_bps"], first["bin_ns"], chunks, recorded, np.asarray(lossy).astype(np.float64), first["rack"]
    )


def read_bursts(
    con: duckdb.DuckDBPyConnection, question: Question, chosen: dict[tuple[str, str, str], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The bursts of the chosen runs."""
    from .bursts import find_bursts

    if not chosen:
        return []
    found = find_bursts(
        con,
        question.definition,
        hosts=sorted({lane[0] for lane in chosen}),
        since_ns=question.since_ns,
        until_ns=question.until_ns,
    )
    numbers = con.execute("SELECT burst FROM bursts ORDER BY burst").fetchall()
    found = [{"burst": number, **burst} for (number,), burst in zip(numbers, found, strict=True)]
    runs = {(run["run"], run["epoch"]) for rows in chosen.values() for run in rows}
    return [burst for burst in found if (burst["run"], burst["epoch"]) in runs]


def read_probes(
    con: duckdb.DuckDBPyConnection, path: tuple[str, str, str, int, int], question: Question, origin: int
) -> Probes:
    """One path's exchanges in order of sending; a probe that was imported twice counts once."""
    src, dst, protocol = path[:3]
    columns = ", ".join(f"{name} - $origin AS {name}" for name in STAMPS)
    result = con.execute(
        f"""SELECT {columns}, rtt_ns, lost, stamp_kind FROM probes
            WHERE src = $src AND dst = $dst AND protocol = $protocol
              AND tx_ns < coalesce($until, 9223372036854775807) AND tx_ns >= coalesce($since, 0)
            ORDER BY tx_ns""",
        {
            "origin": origin,
            "src": src,
            "dst": dst,
            "protocol": protocol,
            "since": question.since_ns,
            "until": question.until_ns,
        },
    ).fetchnumpy()

    def column(name: str) -> Floats:
        return np.ma.filled(np.ma.asarray(result[name]).astype(np.float64), np.nan)

    kinds = sorted(set(np.ma.filled(np.ma.asarray(result["stamp_kind"][:1]), "").tolist()))
    lost = np.ma.filled(np.ma.asarray(result["lost"]), False).astype(bool)
    stamps = {name.removesuffix("_ns"): column(name) for name in (*STAMPS, "rtt_ns")}
    return Probes(src, dst, protocol, lost=lost, stamp_kind=kinds[0] if kinds else "", **stamps)


def make_scenes(
    con: duckdb.DuckDBPyConnection,
    question: Question,
    ports: list[Port],
    bursts: list[dict[str, Any]],
    paths: list[tuple[str, str, str, int, int]],
    origin: int,
    notes: list[str],
) -> list[Scene]:
    """A scene for each path that crosses a recorded port; for every path where none does."""
    windows = read_queues(con, ports, origin, notes)
    probes = [read_probes(con, path, question, origin) for path in paths]
    addresses = own_addresses(con)
    crossings = [crossings_of(path, ports, question.known_as, addresses) for path in probes]
    if ports and probes and not any(crossings):
        notes.append(
            "no probe names a recorded host: taken as if either end of the probes may be the recorded one "
            "(--known-as NAME says which)"
        )
        crossings = [[Crossing(port, end, True) for port in ports for end in ("dst", "src")] for _ in probes]
    spans = {id(port): burst_arrays(port, bursts, origin) for port in ports}
    scenes = []
    for path, crossed in zip(probes, crossings, strict=True):
        if any(crossings) and not crossed:
            continue
        others = [other for other, theirs in zip(probes, crossings, strict=True) if not theirs]
        kept = within(path, crossed, notes)
        crossed = [crossing for crossing in crossed if np.isfinite(crossing.port.position(kept.tx)).any()]
        scenes.append(
            Scene(
                kept,
                crossed,
                [spans[id(c.port)] for c in crossed],
                [windows.get(id(c.port)) for c in crossed],
                others,
                question.rule,
            )
        )
    return scenes


def within(probes: Probes, crossings: list[Crossing], notes: list[str]) -> Probes:
    """The probes that were sent while a port was recorded, if any was."""
    recorded = np.zeros(len(probes), dtype=bool)
    for crossing in crossings:
        recorded |= np.isfinite(crossing.port.position(probes.tx))
    if not recorded.any() or recorded.all():
        return probes
    notes.append(f"{probes.path}: {int((~recorded).sum()):,} probes outside of the recorded time are left out")
    return probes.select(recorded)


def crossings_of(
    probes: Probes, ports: list[Port], known_as: tuple[str, ...], addresses: dict[str, str]
) -> list[Crossing]:
    """The recorded ports at either end of a path, by the name or the address of their host."""
    return [
        Crossing(port, end, False)
        for port in ports
        for end, name in (("dst", probes.dst), ("src", probes.src))
        if same_name(name, port.host)
        or same_name(name, port.interface)
        or name in known_as
        or addresses.get(name) == port.host
    ]


def own_addresses(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Address → host, where a host's outgoing direction was recorded: what is sent there carries its own address."""
    rows = con.execute(
        """SELECT source, host FROM sources WHERE direction = 'out' AND source <> 'other'
           GROUP BY source, host QUALIFY sum(bytes) * 2 > sum(sum(bytes)) OVER (PARTITION BY host)"""
    ).fetchall()
    return dict(rows)


def same_name(name: str, host: str) -> bool:
    """Whether two names mean one host: equal but for case, or one is the other with its domain."""
    a, b = name.lower(), host.lower()
    return a == b or (not a.replace(".", "").isdigit() and (a.startswith(b + ".") or b.startswith(a + ".")))


def burst_arrays(port: Port, bursts: list[dict[str, Any]], origin: int) -> tuple[Floats, Floats]:
    """Begin and end of a port's bursts, ns since the origin."""
    lane = (port.host, port.interface, port.direction)
    rows = [b for b in bursts if (b["host"], b["interface"], b["direction"]) == lane]
    return (
        np.array([b["start_ns"] - origin for b in rows], dtype=float),
        np.array([b["end_ns"] - origin for b in rows], dtype=float),
    )


def read_queues(con: duckdb.DuckDBPyConnection, ports: list[Port], origin: int, notes: list[str]) -> dict[int, Queue]:
    """The windows of each port's fullest queue, the finest where several widths are stored. By id(port)."""
    listed = con.execute(
        """SELECT device, port, queue, batch, median(ts_ns - window_start_ns) AS width, max(max_bytes) AS peak
           FROM queues WHERE max_bytes IS NOT NULL AND ts_ns > window_start_ns GROUP BY ALL
           ORDER BY width, peak DESC, device, port, queue, batch"""
    ).fetchall()
    found: dict[int, Queue] = {}
    switch_ports = {row[:2] for row in listed}
    for port in ports:
        if port.direction == "out":  # a switch's queue stands before a receiver
            continue
        rows = [row for row in listed if names_port(row[1], port)]
        if not rows and len(switch_ports) == 1 and len({(p.host, p.interface) for p in ports}) == 1:
            rows = listed
            notes.append(
                f"queue windows of {rows[0][0]} {rows[0][1]} are taken as those of {port.name}: there are no others"
            )
        if not rows:
            continue
        finest = [row for row in rows if row[4] <= 2 * rows[0][4]]
        device, name, queue_name = max(finest, key=lambda row: row[5])[:3]
        batches = [row[3] for row in finest if row[:3] == (device, name, queue_name)]
        windows = con.execute(
            """SELECT DISTINCT window_start_ns - $origin AS begin, ts_ns - $origin AS "end", max_bytes FROM queues
               WHERE device = $device AND port = $port AND queue = $queue AND list_contains($batches, batch)
                 AND max_bytes IS NOT NULL ORDER BY ts_ns""",
            {"origin": origin, "device": device, "port": name, "queue": queue_name, "batches": batches},
        ).fetchnumpy()
        arrays = (np.asarray(windows[key]).astype(np.float64) for key in ("begin", "end", "max_bytes"))
        found[id(port)] = Queue(f"{device} {name} queue {queue_name}", *arrays)
    return found


def names_port(switch_port: str, port: Port) -> bool:
    """Whether a switch's port is called after the host or interface behind it."""
    parts = switch_port.lower().replace("_", "-").replace("/", "-").split("-")
    return any(
        name and (name.lower() == switch_port.lower() or name.lower() in parts) for name in (port.host, port.interface)
    )


def judge(scenes: list[Scene], seed: int) -> list[Finding]:
    """Evidence and verdict of every path, false discoveries controlled over all; the deciding one first: the path with
    the most lateness among those with a tail, else the first that could not be judged, else any."""
    evidence = [cause.gather(scene, np.random.default_rng([seed, k])) for k, scene in enumerate(scenes)]
    tested = [e for e in evidence if e.p_value is not None]
    for e, q in zip(tested, benjamini_hochberg([e.p_value for e in tested if e.p_value is not None]), strict=True):
        e.q_value = q
    findings = [Finding(scene, e, decide(e)) for scene, e in zip(scenes, evidence, strict=True)]

    def weight(finding: Finding) -> tuple[int, float]:
        present = finding.evidence.tail.present
        return (2 if present else 1 if present is None else 0, float(finding.evidence.ledger.excess.sum()))

    return sorted(findings, key=weight, reverse=True)


def main_bursts(answer: Investigation) -> list[dict[str, Any]]:
    """The bursts of the port that the deciding path's evidence is about; all where there is none."""
    crossing = answer.findings[0].evidence.crossing if answer.findings else None
    if crossing is None:
        return answer.bursts
    lane = (crossing.port.host, crossing.port.interface, crossing.port.direction)
    return [b for b in answer.bursts if (b["host"], b["interface"], b["direction"]) == lane]


def replay_of(answer: Investigation) -> queue.Replay | None:
    """A model of the deciding port, where its bursts delayed enough probes to fit one."""
    if not answer.findings or not answer.findings[0].evidence.tail.present:
        return None
    rows = main_bursts(answer)
    spans = [(b["start_ns"] - answer.origin_ns, b["end_ns"] - answer.origin_ns, b["fan_in"]) for b in rows]
    if not spans:
        return None
    begin, end, fan_in = (np.array(side, dtype=float) for side in zip(*spans, strict=True))
    return queue.calibrate(answer.findings[0].scene, answer.findings[0].evidence, (begin, end, fan_in))


def windows_of(findings: list[Finding]) -> Queue | None:
    """The queue windows of the deciding port."""
    if not findings or findings[0].evidence.crossing is None:
        return None
    scene = findings[0].scene
    return scene.queues[[c is findings[0].evidence.crossing for c in scene.crossings].index(True)]
