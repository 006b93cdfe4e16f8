"""The depths of the ports' queues, read every millisecond, so that bursts of some milliseconds are seen.

The queue "0" is everything that waits at a port. If it consists of several classes (of htb, prio, mq), each class is
also a queue, with the name that tc gives it: "1:10".

Each subscription has its own windows, so that taking the maxima of one does not empty those of another.
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
SWITCH_S = 0.0005  # interval at which other Python threads give way to the readings

Queue = tuple[str, str]  # a port, and the name of one of its queues


@dataclass
class DepthWindow:
    """The readings of a queue since the last call of `take`."""

    largest: int = 0
    total: int = 0
    readings: int = 0

    def add(self, depth: int) -> None:
        if depth > self.largest:
            self.largest = depth
        self.total += depth
        self.readings += 1


class DepthWindows:
    """The windows of some queues, for one path of a subscription."""

    def __init__(self, queues: Iterable[Queue], newest: dict[Queue, int]) -> None:
        self._windows = {queue: DepthWindow() for queue in queues}
        self._newest = newest
        self._lock = threading.Lock()

    @property
    def queues(self) -> tuple[Queue, ...]:
        return tuple(self._windows)

    def note(self, queue: Queue, now_ns: int, depth: int) -> None:
        """Add a reading. Called in the reading thread."""
        with self._lock:
            self._windows[queue].add(depth)

    def take(self, queue: Queue) -> tuple[int, int] | None:
        """Returns the largest and mean depth in bytes since the last call. Without a reading since then, both are the
        newest depth. Returns None if there is no reading of the queue, or the queue is gone."""
        newest = self._newest.get(queue)
        if newest is None or queue not in self._windows:
            return None
        with self._lock:
            window, self._windows[queue] = self._windows[queue], DepthWindow()
        return (window.largest, window.total // window.readings) if window.readings else (newest, newest)


def _readers(ports: list[str]) -> dict[Queue, QueueReader]:
    """Returns readers of all queues of PORTS in which packets can wait and which can be read."""
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
    """Reads the queues of PORTS in a separate thread. Ports without a queue are left out. If reading fails, `failed` is
    called in that thread; from then on there are no readings, instead of old ones."""

    def __init__(self, ports: list[str]) -> None:
        self._readers = _readers(ports)
        self.newest: dict[Queue, int] = {}  # depths of the queues that could be read last time
        self.failed: Callable[[Exception], None] = lambda error: None
        self._listeners: dict[Queue, tuple[Listener, ...]] = {}
        self._changing = threading.Lock()  # held while listeners change
        self._stop = threading.Event()
        self._statistics = _readers(ports)  # with separate sockets, for the other thread
        self._thread = threading.Thread(target=self._run, name="mburst-watermarks", daemon=True)

    @property
    def queues(self) -> list[Queue]:
        """The existing queues."""
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
        """Begin windows of some queues; `forget` ends them."""
        made = DepthWindows(queues, self.newest)
        self.listen(made.queues, made.note)
        return made

    def forget(self, windows: DepthWindows) -> None:
        self.unlisten(windows.queues, windows.note)

    def listen(self, queues: Iterable[Queue], listener: Listener) -> None:
        """Call LISTENER(queue, time, depth) for each reading of QUEUES, in the reading thread."""
        with self._changing:
            for queue in queues:
                self._listeners[queue] = (*self._listeners.get(queue, ()), listener)

    def unlisten(self, queues: Iterable[Queue], listener: Listener) -> None:
        with self._changing:
            for queue in queues:
                self._listeners[queue] = tuple(one for one in self._listeners[queue] if one != listener)

    def statistics(self, queue: Queue) -> Statistics | None:
        """Returns the kernel's statistics of a queue, None if it is gone."""
        try:
            return self._statistics[queue].statistics()
        except (OSError, KeyError):
            return None

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # needs root
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
                except (OSError, KeyError):  # the port or its queue is gone
                    self._readers.pop(queue).close()
                    self.newest.pop(queue, None)
                    continue
                self._note(queue, time.time_ns(), depth)

    def _note(self, queue: Queue, now_ns: int, depth: int) -> None:
        self.newest[queue] = depth
        for listener in self._listeners.get(queue, ()):
            listener(queue, now_ns, depth)
