"""mburst's own verbs on the hosts of a rack: a rack is measured by what users run.

    cache        reflect, and record if the recording is live
    api          probe, of both interfaces of the cache server
    tor          switch-agent, and collect, which reads it

The switch's exporter (export.py) is not a verb: it stands for what the newest switches have, and sends to collect.

One machine plays all hosts. Prober and reflector therefore run before ordinary processes (SCHED_FIFO) while they
measure, so that they measure the network and not how busy this machine is.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ... import extras, temporary
from ...errors import MburstError
from ...process import interrupting
from ...process.python import command
from .errors import RackFailed, RackUnavailable
from .plan import CACHE2_IP, CACHE2_PORT, CACHE_IP, CACHE_PORT
from .role import RLIMIT_RTTIME, RTTIME_US, Role, python_environment
from .sample import Sampled

if TYPE_CHECKING:
    from .rack import Rack

CONFIG = """targets:
  tor: {{address: "unix:{socket}", insecure: true, subscriptions: [depth, counters]}}
subscriptions:
  depth:     # each millisecond in which it changes
    paths: ["{queue}/max-queue-len"]
    stream-mode: on-change
  counters:
    paths: ["{queue}/transmit-octets", "{queue}/dropped-pkts"]
    stream-mode: sample
    sample-interval: 100ms
otlp: {{listen: "{otlp}"}}  # bytes of the port and depth of its queue, each millisecond
mburst: {{links: [{{device: tor, port: {port}, host: cache, interface: eth0, rack: r1, link: {link}}}]}}
"""
QUEUE = f"/qos/interfaces/interface[interface-id={CACHE_PORT}]/output/queues/queue/state"
SWITCH = "tor"  # its name in targets, links and its own messages
OTLP = "127.0.0.1:4317"  # address of the switch itself
RATE = 500  # probes per second to each interface: with more, a machine with two processors sends rounds with pauses
NAMES = {CACHE_IP: "cache", CACHE2_IP: "cache-nic2"}

_BEGINS_WITHIN_S = 60
_ENDS_WITHIN_S = 60
_PATIENCE_S = 10
_LOOK_S = 0.02
_WITH_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'  # `ip netns exec` gives a program its own mounts


@dataclass(frozen=True)
class Verb:
    """`mburst WORDS` on a HOST of a rack. `has_begun` decides by the output whether the verb is working."""

    host: str
    words: list[str]
    has_begun: Callable[[str], bool]
    real_time: bool = False
    hosts: Path | None = None  # file to use as its /etc/hosts


class Running:
    """A running verb. Its output, including errors, is kept and not shown."""

    def __init__(self, rack: Rack, verb: Verb) -> None:
        self.verb = verb
        self._printed = tempfile.TemporaryFile(dir=temporary.place())  # noqa: SIM115  closed by close()
        argv = command("mburst", *verb.words)
        if verb.hosts:
            argv = ["sh", "-c", _WITH_HOSTS, str(verb.hosts), *argv]
        self._process = rack.exec_in(rack.plan.namespace(verb.host), argv, stdin=subprocess.DEVNULL,
                                     stdout=self._printed, stderr=self._printed, start_new_session=True,
                                     env=python_environment())  # fmt: skip

        with contextlib.suppress(OSError):  # at once: it changes its user soon, whose limits not every root may set
            resource.prlimit(self._process.pid, RLIMIT_RTTIME, RTTIME_US)

    @property
    def output(self) -> str:
        """The output so far."""
        return os.pread(self._printed.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def await_begin(self) -> None:
        """Wait until the verb is working. Raises RackFailed if it has ended or does not begin."""
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while not self.verb.has_begun(self.output):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failed("did not begin")
            time.sleep(_LOOK_S)
        self._prefer(self.verb.real_time)

    def ask_to_end(self) -> None:
        """Ask the verb to end. Returns at once."""
        if self._process.poll() is None:
            self._prefer(False)
            self._process.send_signal(signal.SIGTERM)

    def await_end(self) -> str:
        """Wait until the verb has ended, and return its output. Raises RackFailed if it does not end, or fails."""
        try:
            code = self._process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise self._failed("did not end") from None
        if code:
            raise self._failed(f"ended with exit code {code}")
        return self.output

    def close(self) -> None:
        """End the verb if it still runs; it is killed if it does not end soon. Repeating it is harmless."""
        interrupting.begin_step()
        self.ask_to_end()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._printed.close()

    def _prefer(self, real_time: bool) -> None:
        """If allowed, let all threads of the verb run before ordinary processes. A thread that does not run may hold
        something for which another waits (Python's global lock)."""
        policy, priority = (os.SCHED_FIFO, 1) if real_time else (os.SCHED_OTHER, 0)
        for task in Path(f"/proc/{self._process.pid}/task").glob("*"):
            with contextlib.suppress(OSError):  # threads may end at any time
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))

    def _failed(self, how: str) -> RackFailed:
        last = self.output.strip().splitlines()[-1:]
        return RackFailed(": ".join([f"rack: mburst {self.verb.words[0]} {how}", *last]))


class ExperimentObserver:
    """Receives the steps of an experiment; this one ignores them."""

    def built(self, rack: Rack) -> None:
        """The rack was built."""

    def starts(self, rack: Rack, verb: Verb) -> None:
        """A verb will be started."""

    def ended(self, rack: Rack, verb: Verb, output: str) -> None:
        """A verb has ended without an error, with this output."""

    def exports(self, rack: Rack) -> None:
        """The switch has begun to send its samples."""

    def exported(self, sampled: Sampled) -> None:
        """The switch has sent all of its samples."""


@contextlib.contextmanager
def running(rack: Rack, verbs: list[Verb], onlooker: ExperimentObserver) -> Iterator[None]:
    """Run the verbs during this context, which begins when all are working. Raises RackFailed if one does not begin, or
    fails."""
    with contextlib.ExitStack() as stack:
        started = []
        for verb in verbs:
            onlooker.starts(rack, verb)
            started.append(stack.enter_context(contextlib.closing(Running(rack, verb))))
        for one in started:
            one.await_begin()
        try:
            yield
        finally:
            for one in started:
                one.ask_to_end()
        for one in started:
            onlooker.ended(rack, one.verb, one.await_end())


@contextlib.contextmanager
def measured(
    rack: Rack,
    store: Path,
    record: list[str] | None = None,
    *,
    rate: int = RATE,
    seed: int = 1,
    onlooker: ExperimentObserver | None = None,
) -> Iterator[None]:
    """In this context, probe the cache server from the API host, read the switch's port to it, and store both in
    `store`. If RECORD, options of `mburst record`, is not None, also record what the cache server receives.

    Raises RackFailed.
    """
    with temporary.folder("mburst-") as folder:
        socket = Path(folder, "agent.sock")
        config = CONFIG.format(socket=socket, queue=QUEUE, otlp=OTLP, port=CACHE_PORT, link=link_of(rack))
        listening = [reflecting(), serving(rack, socket)]
        asking = [collecting(store, _written(Path(folder, "gnmi.yaml"), config)),
                  probing(rack, store, _written(Path(folder, "hosts"), hosts_file()), rate, seed)]  # fmt: skip
        if record is not None:
            listening.insert(0, recording(store, record))
        onlooker = onlooker or ExperimentObserver()
        with running(rack, listening, onlooker), running(rack, asking, onlooker), exporting(rack, onlooker):
            yield


@contextlib.contextmanager
def exporting(rack: Rack, onlooker: ExperimentObserver) -> Iterator[None]:
    """In this context, the switch sends the samples of its port to the cache server. The context begins with the first
    sample. Raises RackFailed."""
    config = {"namespace": rack.plan.namespace("tor"), "device": SWITCH, "port": CACHE_PORT, "address": OTLP}
    with contextlib.closing(Role("export", rack.limit_s, **config)) as exporter:
        exporter.wait_ready()
        onlooker.exports(rack)
        yield
        [sampled] = exporter.stop()
    onlooker.exported(Sampled(*sampled))


def require() -> None:
    """Raise RackUnavailable if libraries of `mburst switch-agent`, `collect` or the exporter are missing."""
    from ...cli.collect import require as require_gnmi

    try:
        require_gnmi()
    except MburstError as reason:
        raise RackUnavailable(f"the rack's switch is read by gNMI: {reason}", extras.how_to_get("demo")) from None
    if not importlib.util.find_spec("opentelemetry"):
        raise RackUnavailable(
            "the rack's switch exports by OTLP: opentelemetry-proto is not installed", extras.how_to_get("demo")
        )


def hosts_file() -> str:
    """Returns the /etc/hosts of the API host."""
    return "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in NAMES.items())


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def recording(store: Path, options: list[str]) -> Verb:
    """Returns `mburst record` of what the cache server receives."""
    return Verb("cache", ["record", "-i", "eth0", "-o", str(store), *options], lambda output: _has(store, "clock"))


def reflecting() -> Verb:
    """Returns `mburst reflect` on the cache server."""
    return Verb("cache", ["reflect"], lambda output: "reflecting on" in output, real_time=True)


def probing(rack: Rack, store: Path, hosts: Path, rate: int = RATE, seed: int = 1) -> Verb:
    """Returns `mburst probe` from the API host to each interface of the cache server, `rate` times per second. It has
    begun when the switch has sent something to each, because nothing else is sent before the rounds."""
    ports = [CACHE_PORT, CACHE2_PORT][: 1 + rack.plan.second_nic]
    before = rack.port_counters()

    def has_begun(output: str) -> bool:
        now = rack.port_counters()
        return all(now[port][1] > before[port][1] for port in ports)

    words = ["probe", *list(NAMES.values())[: len(ports)], "--rate", f"{rate}/s", "--timeout", "1s", "--host", "api",
             "--seed", str(seed), "-o", str(store)]  # fmt: skip
    return Verb("api", words, has_begun, real_time=True, hosts=hosts)


def link_of(rack: Rack) -> str:
    """Returns the rate of the port to the cache server in the form of options."""
    return f"{rack.plan.link_bps // 10**6}M"


def serving(rack: Rack, socket: Path) -> Verb:
    """Returns `mburst switch-agent` on the switch, for its port to the cache server."""
    return Verb("tor", ["switch-agent", CACHE_PORT, "--listen", f"unix:{socket}", "--link", link_of(rack)],
                lambda output: "serving" in output)  # fmt: skip


def collecting(store: Path, config: Path) -> Verb:
    """Returns `mburst collect` from the switch."""
    return Verb("tor", ["collect", str(config), "-o", str(store)], lambda output: _has(store, "queues"))


def _has(store: Path, table: str) -> bool:
    """Whether a writer has stored rows of the table, or soon will."""
    from ...sql import StoreFolder

    return not StoreFolder(store).is_empty(table)
