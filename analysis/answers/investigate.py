"""From a store to findings: the ports and paths, which path crosses which port, and the evidence on each.

cause/read.py reads the rows; everything else is arithmetic on arrays.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import MburstError
from ...sql.damage import DamagedFile, counted, damaged_files
from ...units import NS_PER_S, format_count
from ..bursts.contention import Contention, contention
from ..canary.sensitivity import CanaryContext, canary_context
from ..cause import fanin, gather, predicted_queue
from ..cause.arrivals import arrivals_of
from ..cause.arriving import stretches_of
from ..cause.conservation import Agreement
from ..cause.evidence.exposure import lateness_by_burst
from ..cause.evidence.switch import PortQueue
from ..cause.ledger import Crossing
from ..cause.link_ends import Lane, link_ends
from ..cause.port import Port
from ..cause.port_counters import do_the_sources_agree
from ..cause.read import (
    Name,
    Path,
    Question,
    SenderOnsets,
    count_probes,
    dropped_by,
    linked_ports,
    own_addresses,
    packets_from,
    read_bursts,
    read_onsets,
    read_paths,
    read_port,
    read_probes,
    read_queues,
    read_recordings,
)
from ..cause.read_counters import counted_packets
from ..cause.scene import Evidence, Scene
from ..cause.tail import LatencyTail, Probes, TailRule, find_tail, latency
from ..cause.verdict import Verdict, decide, ports_without_queue
from ..model.carried import beyond_links
from ..model.flow_control import uncounted_pauses
from ..model.kept import unkept_senders
from ..model.stats import Floats, benjamini_hochberg
from ..read.path_ends import host_of
from ..whatif.read_senders import senders_while_full
from ..whatif.replay import PredictedLatency, Replay, calibrate, usual_changes, what_if
from .chosen import choose_recordings, left_out
from .memory import hold_to_memory

if TYPE_CHECKING:
    import duckdb

CROSSED = (
    "a recording of the port that the probes cross (`mburst record` on the interface that carries them, `--inner-ip` "
    "where they are tunnelled)"
)
EVIDENCE = ("bins", "sources", "recordings", "probes", "queues", "ports", "links", "clock")  # tables that it reads
MOST_PAIRS = 10  # pairs of hosts that burst together
MOST_CONTROLS = 20  # paths that are compared with each tested one


@dataclass(frozen=True)
class Finding:
    """One path: the data that was examined, the evidence, and the verdict."""

    scene: Scene
    evidence: Evidence
    verdict: Verdict


class OtherPath(NamedTuple):
    """A path that crosses no recorded port. total: ns, NaN if lost."""

    path: str
    tail: LatencyTail
    total: Floats


@dataclass
class InvestigationResult:
    """The result of an investigation. Times in arrays are ns since `origin_ns` (Unix). span: the Unix times of the
    first and the last recorded bin or probe. findings: the one that decides `cause` comes first."""

    origin_ns: int
    span: tuple[int, int]
    ports: list[Port]
    findings: list[Finding]
    bursts: list[dict[str, Any]]
    windows: list[tuple[Port, PortQueue]] = field(default_factory=list)
    others: list[OtherPath] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    groups: list[fanin.Group] = field(default_factory=list)
    onsets: SenderOnsets | None = None  # in the deciding port's bursts
    contention: Contention | None = None
    prediction: predicted_queue.Prediction | None = None
    replay: Replay | None = None
    outcomes: list[PredictedLatency] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    recordings: dict[Lane, list[dict[str, Any]]] = field(default_factory=dict)  # the ones in use, by choose_recordings
    without_speed: list[str] = field(default_factory=list)  # "HOST INTERFACE DIRECTION", link speed unknown
    damaged: list[DamagedFile] = field(default_factory=list)
    seen: CanaryContext = field(default_factory=CanaryContext)

    @property
    def cause(self) -> str:
        return self.findings[0].verdict.cause if self.findings else "undetermined"

    @property
    def main_bursts(self) -> list[dict[str, Any]]:
        """The bursts of the port that the deciding path's evidence is about; all bursts if there is no such port."""
        crossing = self.findings[0].evidence.crossing if self.findings else None
        if crossing is None:
            return self.bursts
        return bursts_of(crossing.port, self.bursts)


def investigate(
    con: duckdb.DuckDBPyConnection, question: Question, considers_changes: bool = True
) -> InvestigationResult:
    """Finds the cause of the tails in the store behind `con`, and what would help unless CONSIDERS_CHANGES is false.
    Raises MburstError if the store has nothing to test."""
    recordings = read_recordings(con, question)
    paths = read_paths(con, question)
    if not recordings and not paths:
        raise MburstError(
            "no recording and no probe to investigate"
            + (f" of {', '.join(question.hosts)}" if question.hosts else "")
            + ("" if (question.since_ns, question.until_ns) == (None, None) else " in this time"),
            "`mburst record` and `mburst probe` make some",
        )
    answer = InvestigationResult(0, (0, 0), [], [], [], damaged=damaged_files(con))
    chosen = answer.recordings = choose_recordings(recordings, answer.notes, answer.without_speed)
    if not chosen and not paths:
        raise MburstError(
            f"the link speed of {', '.join(answer.without_speed)} is not known",
            "give it with --link, or with --recorded-link of `mburst what-if`",
        )
    answer.missing.extend(f"the speed of {lane} (`--link 10G`)" for lane in answer.without_speed)
    answer.span = span_of(chosen, paths)
    hold_to_memory(chosen.values(), count_probes(con, question), answer.span)
    answer.origin_ns = origin_of(chosen, paths)
    # Read bursts before the arrays that stay, so that the memory for detecting them can be freed first.
    answer.bursts = read_bursts(con, question, chosen)
    ends = link_ends(
        con, chosen, max((recording["end_ns"] for rows in chosen.values() for recording in rows), default=0)
    )
    lost = dropped_by(con, chosen)
    answer.ports = [read_port(con, lane, chosen, answer.origin_ns, lost[lane], ends.get(lane)) for lane in chosen]
    addresses = own_addresses(con)
    linked = linked_ports(con, answer.ports, answer.origin_ns)
    scenes = make_scenes(con, question, answer, linked, paths, addresses)
    scenes = [with_left_out(scene, left_out(recordings, chosen), answer.origin_ns) for scene in scenes]
    answer.findings = assess(scenes, question.seed, answer.notes)
    hold_sources_together(con, answer, linked, scenes)
    if not answer.ports and not answer.missing:
        answer.missing.append("a recording of the port (`mburst record`)")
    if not paths:
        answer.missing.append("probes of this time (`mburst probe`, `mburst import probes`)")
    if damaged := [file for file in answer.damaged if file.table in EVIDENCE]:
        tables = " and ".join(sorted({file.table for file in damaged}))
        answer.missing.insert(0, f"the rows of {tables} that are missing ({counted(damaged)})")
    if answer.ports:
        answer.notes.extend(uncounted_pauses(con, ends))
    if answer.bursts:
        answer.notes.extend([*unkept_senders(con), *beyond_links(con)])
        answer.groups = fanin.groups(con, answer.main_bursts, addresses, lateness_of(answer))
        answer.onsets = read_onsets(con, answer.main_bursts)
        answer.contention = contention(con, MOST_PAIRS)
    if considers_changes:
        consider_changes(con, answer)
    answer.seen = canary_context(con, chosen.values(), answer.bursts, question.definition)
    return answer


def lateness_of(answer: InvestigationResult) -> dict[int, float] | None:
    """Returns the lateness that each burst of the deciding port caused, ns, by its number. None unless bursts are the
    cause, and if TCP repeated probes: these waited for another packet, which an earlier burst dropped."""
    finding = answer.findings[0] if answer.findings else None
    if answer.cause != "bursts" or finding is None or finding.evidence.repeats.either.any():
        return None
    assert finding.evidence.crossing is not None
    spans = finding.scene.bursts[finding.scene.number_of(finding.evidence.crossing)]
    caused = lateness_by_burst(finding.evidence, spans).tolist()
    return dict(zip((burst["burst"] for burst in answer.main_bursts), caused, strict=True))


def hold_sources_together(
    con: duckdb.DuckDBPyConnection, answer: InvestigationResult, linked: dict[int, Name], scenes: list[Scene]
) -> None:
    """Add whether the recordings and the switch agree. If they disagree and it is unknown which one is wrong, no port
    is accused or cleared by them."""
    arrivals = {id(crossing.port): scene.arrivals_at(crossing) for scene in scenes for crossing in scene.crossings}
    queues = {id(port): queue for port, queue in answer.windows}
    answer.agreements = do_the_sources_agree(con, answer.ports, linked, queues, arrivals, answer.origin_ns)
    answer.findings = [doubted(finding, answer.agreements) for finding in answer.findings]


def doubted(finding: Finding, agreements: list[Agreement]) -> Finding:
    """Returns the finding, without a cause that rests on a port with contradictory sources."""
    if not (finding.verdict.cause in ("bursts", "elsewhere") or finding.verdict.paused):
        return finding
    disagreeing = [
        row for row in agreements if row.state == "disagree" and not row.blamed and row.port in rests_on(finding)
    ]
    if not disagreeing:
        return finding
    reasons = [
        f"the sources of {row.port} disagree, and which of them is wrong cannot be determined ({row.what}: {row.said})"
        for row in disagreeing
    ]
    needed = (
        f"the switch port that {disagreeing[0].port} is attached to (`links` of `mburst collect`), and a recording "
        "without losses"
    )
    return replace(finding, verdict=Verdict("undetermined", reasons, [needed, *finding.verdict.missing]))


def rests_on(finding: Finding) -> set[str]:
    """Returns the names of the ports that the verdict is about."""
    crossing = finding.evidence.crossing
    return set(finding.verdict.ports) or ({crossing.port.name} if crossing else set())


def consider_changes(con: duckdb.DuckDBPyConnection, answer: InvestigationResult) -> None:
    """Add the results of a model of the deciding port: its queue, and the changes that would help."""
    answer.replay = replay_of(con, answer)
    if answer.replay is not None:
        answer.outcomes = what_if(answer.replay, usual_changes(answer.replay))
    crossing = answer.findings[0].evidence.crossing if answer.findings else None
    came = answer.findings[0].scene.arrivals_at(crossing) if crossing else None
    if crossing and came:
        windows = next((queue for port, queue in answer.windows if port is crossing.port), None)
        answer.prediction = predicted_queue.predicted(crossing.port, came, windows)


def span_of(chosen: dict[Lane, list[dict[str, Any]]], paths: list[Path]) -> tuple[int, int]:
    """Returns the Unix times of the first and the last recorded bin or probe."""
    recordings = [recording for rows in chosen.values() for recording in rows]
    first = min([recording["first_ns"] for recording in recordings] + [path[3] for path in paths])
    return first, max([recording["end_ns"] for recording in recordings] + [path[4] for path in paths])


def origin_of(chosen: dict[Lane, list[dict[str, Any]]], paths: list[Path]) -> int:
    """Returns a Unix time before or at the first data, at which bins of every width begin."""
    widths = [recording["bin_ns"] for rows in chosen.values() for recording in rows]
    first, _ = span_of(chosen, paths)
    step = math.lcm(*widths) if widths else 1
    return first // step * step


def make_scenes(
    con: duckdb.DuckDBPyConnection,
    question: Question,
    answer: InvestigationResult,
    linked: dict[int, Name],
    paths: list[Path],
    addresses: dict[str, str],
) -> list[Scene]:
    """Returns a scene for each path that crosses a recorded port, or for every path if none does. Adds the queue
    windows, the control paths and notes to the answer."""
    ports, notes = answer.ports, answer.notes
    windows = read_queues(con, question, ports, linked, answer.origin_ns, notes)
    answer.windows = [(port, windows[id(port)]) for port in ports if id(port) in windows]
    probes = [read_probes(con, path, question, answer.origin_ns) for path in paths]
    crossings = [crossings_of(path, ports, question.aliases, addresses) for path in probes]
    if ports and probes and not any(crossings):
        notes.append(
            "no probe names a recorded host: either end of the probes is assumed to be the recorded one "
            "(--alias NAME names it)"
        )
        crossings = [[Crossing(port, end, True) for port in ports for end in ("dst", "src")] for _ in probes]
    crossings = [seen_crossing(con, *both, addresses, answer) for both in zip(probes, crossings, strict=True)]
    spans = {id(port): burst_arrays(port, answer.bursts, answer.origin_ns) for port in ports}
    arrivals = {id(port): arrivals_of(port, ports) for port in ports}
    counted = {
        id(port): counted_packets(con, port, linked.get(id(port)), windows.get(id(port)), answer.origin_ns)
        for port in ports
    }
    others = controls_of(probes, crossings, notes)
    scenes = []
    for path, crossed in zip(probes, crossings, strict=True):
        if any(crossings) and not crossed:
            continue
        kept, outside = within(path, crossed, notes)
        note_reflector(kept, question.rule.on(crossing.port.link_bps for crossing in crossed), notes)
        crossed = [crossing for crossing in crossed if np.isfinite(crossing.port.position(kept.tx)).any()]
        scenes.append(
            Scene(
                kept,
                crossed,
                [spans[id(c.port)] for c in crossed],
                [windows.get(id(c.port)) for c in crossed],
                sorted(others, key=lambda other: other.src != path.src)[:MOST_CONTROLS],  # same clock first
                question.rule,
                [arrivals[id(c.port)] for c in crossed],
                [counted[id(c.port)] for c in crossed],
                outside,
            )
        )
    if any(crossings):
        rule = question.rule.on(port.link_bps for port in ports)
        for other in others:
            nowhere, delays = np.zeros(len(other), dtype=bool), latency(other)
            answer.others.append(OtherPath(other.path, find_tail(other, delays, rule, nowhere), delays.total))
    return scenes


def controls_of(probes: list[Probes], crossings: list[list[Crossing]], notes: list[str]) -> list[Probes]:
    """Returns the paths that cross no recorded port, if others do. Notes those that were probed at other times."""
    crossed = [path for path, theirs in zip(probes, crossings, strict=True) if theirs]
    others = [path for path, theirs in zip(probes, crossings, strict=True) if not theirs] if crossed else []
    for other in others:
        if not any(other.tx[0] <= path.tx[-1] and path.tx[0] <= other.tx[-1] for path in crossed):
            notes.append(f"{other.path} was probed at another time: it is not used as a control")
    return others


def within(probes: Probes, crossings: list[Crossing], notes: list[str]) -> tuple[Probes, Probes | None]:
    """Returns the probes that were sent while a port was recorded, or all probes if none was; and the others, if there
    are any."""
    recorded = np.zeros(len(probes), dtype=bool)
    for crossing in crossings:
        recorded |= np.isfinite(crossing.port.position(probes.tx))
    if not recorded.any() or recorded.all():
        return probes, None
    outside = format_count(int((~recorded).sum()), "probe")
    notes.append(f"{probes.path}: {outside} outside of the recorded time, left out")
    return probes.select(recorded), probes.select(~recorded)


def with_left_out(scene: Scene, times: dict[Lane, list[tuple[int, int]]], origin: int) -> Scene:
    """Returns the scene with the TIMES of recordings of its ports that are not in use (Unix ns)."""
    spans = [span for crossing in scene.crossings for span in times.get(crossing.port.lane, ())]
    return replace(scene, left_out=[(begin - origin, end - origin) for begin, end in spans])


def note_reflector(probes: Probes, rule: TailRule, notes: list[str]) -> None:
    """Note that the reflector itself often took long; that time is no part of the round trip of the network."""
    took = probes.remote_tx - probes.remote_rx
    known = took[np.isfinite(took) & ~probes.lost]
    if probes.measure != "network round trip" or not len(known):
        return
    late = int((known > rule.threshold(float(np.median(known)))).sum())
    if late > (1 - rule.levels[0]) * len(known):
        notes.append(
            f"{probes.path}: the reflector's host held {format_count(late, 'probe')} for long; that is not in "
            "what is measured, the network round trip (probes with application stamps have it)"
        )


def crossings_of(
    probes: Probes, ports: list[Port], aliases: tuple[str, ...], addresses: dict[str, str]
) -> list[Crossing]:
    """Returns the recorded ports at either end of a path, matched by the name or the address of their host."""
    return [
        Crossing(port, end, False)
        for port in ports
        for end, name in (("dst", probes.dst), ("src", probes.src))
        if is_at(name, port.host, port.interface, addresses) or not {name, host_of(name)}.isdisjoint(aliases)
    ]


def is_at(name: str, host: str, interface: str, addresses: dict[str, str]) -> bool:
    """Returns whether an end of a path, given by name or address, is that interface of a host."""
    return addresses.get(host_of(name)) == host or any(
        same_name(end, own) for end in (name, host_of(name)) for own in (host, interface)
    )


def seen_crossing(
    con: duckdb.DuckDBPyConnection,
    probes: Probes,
    crossings: list[Crossing],
    addresses: dict[str, str],
    answer: InvestigationResult,
) -> list[Crossing]:
    """Returns the crossings with a port that carried at least half as many packets of the probes' sender as there were
    answered probes, or for which this is unknown. The others are noted: such a port belongs to a neighbour, or to
    another member of a bond."""
    kept = []
    since, until = answer.origin_ns + int(probes.tx[0]) - NS_PER_S, answer.origin_ns + int(probes.tx[-1]) + NS_PER_S
    for crossing in crossings:
        answered = int((~probes.lost & np.isfinite(crossing.port.position(probes.tx))).sum())
        sender = probes.src if sends_into(crossing) == "src" else probes.dst
        known = addresses_of(sender, addresses)
        packets = packets_from(con, crossing.port, known, since, until) if known else None
        if packets is None or 2 * packets >= answered:
            kept.append(crossing)
            continue
        carried = format_count(packets, "packet")
        answer.notes.append(
            f"{probes.path} does not cross {crossing.port.name}: it carried {carried} of {sender} while "
            f"{format_count(answered, 'probe was', 'probes were')} answered"
        )
        if CROSSED not in answer.missing:
            answer.missing.append(CROSSED)
    return kept


def sends_into(crossing: Crossing) -> str:
    """Returns the end of the path that sends the packets of the probes that this port carries."""
    towards = "src" if crossing.end == "dst" else "dst"
    return crossing.end if crossing.port.direction == "out" else towards


def addresses_of(name: str, addresses: dict[str, str]) -> list[str]:
    """Returns the addresses of an end of a path in captures; none if they are unknown."""
    end = host_of(name)
    try:
        return [str(ipaddress.ip_address(end))]
    except ValueError:
        return [address for address, host in addresses.items() if same_name(end, host)]


def same_name(name: str, host: str) -> bool:
    """Returns whether two names mean one host: they are equal except for case, or one is the other with its domain."""
    a, b = name.lower(), host.lower()
    return a == b or (not a.replace(".", "").isdigit() and (a.startswith(b + ".") or b.startswith(a + ".")))


def bursts_of(port: Port, bursts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the bursts of the port."""
    return [b for b in bursts if (b["host"], b["interface"], b["direction"]) == port.lane]


def burst_arrays(port: Port, bursts: list[dict[str, Any]], origin: int) -> tuple[Floats, Floats]:
    """Returns the starts and ends of a port's bursts, ns since the origin."""
    rows = bursts_of(port, bursts)
    return (
        np.array([b["start_ns"] - origin for b in rows], dtype=float),
        np.array([b["end_ns"] - origin for b in rows], dtype=float),
    )


def assess(scenes: list[Scene], seed: int, notes: list[str]) -> list[Finding]:
    """Returns the evidence and the verdict of every path, with false discoveries controlled over all paths. The
    deciding path comes first: the one with the most lateness among those with a tail, else the first that could not be
    assessed, else any."""
    examined = [gathered(scene, [seed, k], notes) for k, scene in enumerate(scenes)]
    tested = [e for _, e in examined if e.p_value is not None]
    for e, q in zip(tested, benjamini_hochberg([e.p_value for e in tested if e.p_value is not None]), strict=True):
        e.q_value = q
    findings = [Finding(scene, e, decide(e)) for scene, e in examined]

    def weight(finding: Finding) -> tuple[int, float]:
        present = finding.evidence.tail.present
        return (2 if present else 1 if present is None else 0, float(finding.evidence.ledger.excess.sum()))

    return sorted(findings, key=weight, reverse=True)


def gathered(scene: Scene, seed: list[int], notes: list[str]) -> tuple[Scene, Evidence]:
    """Returns the scene and the evidence on its path. Full ports are left out, and noted, if nothing shows that they
    queued: they explain no wait, however full they were. Those with pause frames may, and stay."""
    evidence = gather.gather(scene, np.random.default_rng(seed))
    idle = [
        (port, why)
        for port, why in ports_without_queue(evidence)
        if port.signals is None or not port.signals.pauses.any()
    ]
    if not idle:
        return scene, evidence
    notes.extend(
        f"{evidence.path}: {port.name} was full while probes waited, and is left out: {why}" for port, why in idle
    )
    return gathered(scene.without_ports([port for port, _ in idle]), seed, notes)


def replay_of(con: duckdb.DuckDBPyConnection, answer: InvestigationResult) -> Replay | None:
    """Returns a model of the deciding port; None unless its bursts delayed enough probes to fit one."""
    if not answer.findings or not answer.findings[0].evidence.tail.present:
        return None
    finding = answer.findings[0]
    crossing, bursts = finding.evidence.crossing, answer.main_bursts
    if crossing is None or not bursts:
        return None
    full = stretches_of(crossing.port)
    rows = senders_while_full(con, crossing.port, full, answer.recordings[crossing.port.lane], bursts, answer.origin_ns)
    return calibrate(finding.scene, finding.evidence, rows)
