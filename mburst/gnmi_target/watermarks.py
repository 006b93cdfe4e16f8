"""How deep the ports' queues were: read every millisecond, so that a burst of some milliseconds is seen.

The queue "0" is all that waits at a port. Where that is in several classes (of htb, prio, mq), each of them is a queue
too, by the name that tc gives it: "1:10".

Each subscription has windows of its own, so that one that takes its maxima does not empty another's.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .netlink import queue_classes
from .qdisc import QueueReader, Statistics

PERIOD_S = 0.001
SWITCH_S = 0.0005  # Python's other threads give way to the readings so often

Queue = tuple[str, str]  # a port, and the name of one of its queues


@dataclass
class DepthWindow:
    """What was seen of a queue since the last time that somebody asked."""

    largest: int = 0
    total: int = 0
    readings: int = 0

    def add(self, depth: int) -> None:
        if depth > self.largest:
            self.largest = depth
        self.total += depth
        self.readings += 1


class DepthWindows:
    """The windows of one path of a subscription: of some queues."""

    def __init__(self, queues: Iterable[Queue], newest: dict[Queue, int]) -> None:
        self._windows = {queue: DepthWindow() for queue in queues}
        self._newest = newest
        self._lock = threading.Lock()

    @property
    def queues(self) -> tuple[Queue, ...]:
        return tuple(self._windows)

    def note(self, queue: Queue, now_ns: int, depth: int) -> None:
        """A reading, in the reading thread."""
        with self._lock:
            self._windows[queue].add(depth)

    def take(self, queue: Queue) -> tuple[int, int] | None:
        """(largest, mean) depth in bytes since the last call; of the newest reading where there was none since; None
        where there is no reading of a queue, or it has gone."""
        newest = self._newest.get(queue)
        if newest is None or queue not in self._windows:
            return None
        with self._lock:
            window, self._windows[queue] = self._windows[queue], DepthWindow()
        return (window.largest, window.total // window.readings) if window.readings else (newest, newest)


def _readers(ports: list[str]) -> dict[Queue, QueueReader]:
    """Readers of all queues of PORTS in which packets can wait and which can be read."""
    found = {}
    for port in ports:
        classes = queue_classes(port)
        names = {"0": 0} | {f"{one >> 16:x}:{one & 0xFFFF:x}": one for one in classes if len(classes) > 1}
        for name, class_id in names.items():
            reader = QueueReader(port, class_id)
            if _has_queue(reader):
                found[port, name] = reader
            else:
                reader.close()
    return found


def _has_queue(reader: QueueReader) -> bool:
    try:
        reader.read()
        return reader.kind() != "noqueue"
    except (OSError, KeyError):
        return False


Listener = Callable[[Queue, int, int], None]


class Watermarks:
    """Reads the queues of PORTS in a thread of its own. Ports without a queue are left out. `failed` is called, in that
    thread, where it cannot go on: from then on there are no readings, rather than old ones."""

    def __init__(self, ports: list[str]) -> None:
        self._readers = _readers(ports)
        self.newest: dict[Queue, int] = {}  # of the queues that could be read last time
        self.failed: Callable[[Exception], None] = lambda error: None
        self._listeners: dict[Queue, tuple[Listener, ...]] = {}
        self._changing = threading.Lock()  # held to change who listens
        self._stop = threading.Event()
        self._statistics = _readers(ports)  # with sockets of their own, for the other thread
        self._thread = threading.Thread(target=self._run, name="mburst-watermarks", daemon=True)

    @property
    def queues(self) -> list[Queue]:
        """Those that are there."""
        return list(self._readers)

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for reader in (*self._readers.values(), *self._statistics.values()):
            reader.close()

    def watch(self, queues: Iterable[Queue]) -> DepthWindows:
        """Windows of some queues, which begin now and end with `forget`."""
        made = DepthWindows(queues, self.newest)
        self.listen(made.queues, made.note)
        return made

    def forget(self, windows: DepthWindows) -> None:
        self.unlisten(windows.queues, windows.note)

    def listen(self, queues: Iterable[Queue], listener: Listener) -> None:
        """Have LISTENER(queue, time, depth) called for each reading of QUEUES, in the reading thread."""
        with self._changing:
            for queue in queues:
                self._listeners[queue] = (*self._listeners.get(queue, ()), listener)

    def unlisten(self, queues: Iterable[Queue], listener: Listener) -> None:
        with self._changing:
            for queue in queues:
                self._listeners[queue] = tuple(one for one in self._listeners[queue] if one != listener)

    def statistics(self, queue: Queue) -> Statistics | None:
        """What the kernel counts of a queue; None where it has gone."""
        try:
            return self._statistics[queue].statistics()
        except (OSError, KeyError):
            return None

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # only root may
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))
        try:
            self._read_on()
        except Exception as error:
            self.newest.clear()
            self.failed(error)

    def _read_on(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            due = max(due + PERIOD_S, time.monotonic() - PERIOD_S)  # after a stall, do not catch up
            time.sleep(max(0.0, due - time.monotonic()))
            for queue, reader in list(self._readers.items()):
                try:
                    depth, _ = reader.read()
                except (OSError, KeyError):  # the port or its queue has gone
                    self._readers.pop(queue).close()
                    self.newest.pop(queue, None)
                    continue
                self._note(queue, time.time_ns(), depth)

    def _note(self, queue: Queue, now_ns: int, depth: int) -> None:
        self.newest[queue] = depth
        for listener in self._listeners.get(queue, ()):
            listener(queue, now_ns, depth)
