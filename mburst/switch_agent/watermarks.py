"""How deep the ports' queues were: read every millisecond, so that a burst of some milliseconds is seen.

The queue "0" is all that waits at a port. Where that is in several classes (of htb, prio, mq), each of them is a queue
too, by the name that tc gives it: "1:10".

Each subscription has a watch of its own, so that one that takes its maxima does not empty another's.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..netlab.watermark import QueueReader, Statistics
from .netlink import queue_classes

PERIOD_S = 0.001
SWITCH_S = 0.0005  # Python's other threads give way to the readings so often

Queue = tuple[str, str]  # a port, and the name of one of its queues


@dataclass
class Window:
    """What was seen of a queue since the last time that somebody asked."""

    largest: int = 0
    total: int = 0
    readings: int = 0

    def add(self, depth: int) -> None:
        if depth > self.largest:
            self.largest = depth
        self.total += depth
        self.readings += 1


class Watch:
    """The windows of one subscription."""

    def __init__(self, queues: list[Queue], newest: dict[Queue, int]) -> None:
        self._windows = {queue: Window() for queue in queues}
        self._newest = newest
        self._lock = threading.Lock()

    def add(self, queue: Queue, depth: int) -> None:
        with self._lock:
            self._windows[queue].add(depth)

    def take(self, queue: Queue) -> tuple[int, int]:
        """(largest, mean) depth in bytes since the last call; of the newest reading where there was none since."""
        with self._lock:
            window, self._windows[queue] = self._windows[queue], Window()
        newest = self._newest.get(queue, 0)
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
    """Reads the queues of PORTS in a thread of its own. Ports without a queue are left out."""

    def __init__(self, ports: list[str]) -> None:
        self._readers = _readers(ports)
        self.queues = list(self._readers)
        self.newest: dict[Queue, int] = {}
        self._watches: list[Watch] = []
        self._listeners: list[Listener] = []
        self._stop = threading.Event()
        self._statistics = _readers(ports)  # with sockets of their own, for the other thread
        self._thread = threading.Thread(target=self._run, name="mburst-watermarks", daemon=True)

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_S)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for reader in (*self._readers.values(), *self._statistics.values()):
            reader.close()

    def watch(self) -> Watch:
        """A watch that begins now."""
        made = Watch(self.queues, self.newest)
        self._watches.append(made)
        return made

    def forget(self, watch: Watch) -> None:
        self._watches.remove(watch)

    def listen(self, listener: Listener) -> None:
        """Have LISTENER(queue, time, depth) called for each reading, in the reading thread."""
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    def statistics(self, queue: Queue) -> Statistics:
        """What the kernel counts of a queue. Raises OSError or KeyError where it has gone."""
        return self._statistics[queue].statistics()

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # only root may
            os.sched_setscheduler(threading.get_native_id(), os.SCHED_FIFO, os.sched_param(1))
        due = time.monotonic()
        while not self._stop.is_set():
            due = max(due + PERIOD_S, time.monotonic() - PERIOD_S)  # after a stall, do not catch up
            time.sleep(max(0.0, due - time.monotonic()))
            for queue, reader in list(self._readers.items()):
                try:
                    depth, _ = reader.read()
                except (OSError, KeyError):  # the port or its queue has gone
                    del self._readers[queue]
                    continue
                self._note(queue, time.time_ns(), depth)

    def _note(self, queue: Queue, now_ns: int, depth: int) -> None:
        self.newest[queue] = depth
        for watch in tuple(self._watches):
            watch.add(queue, depth)
        for listener in tuple(self._listeners):
            listener(queue, now_ns, depth)
