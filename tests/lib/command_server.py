"""A process that has imported what mburst imports, and forks commands from it: see forked_commands.py.

Each fork runs `python -m mburst` as a new interpreter does, up to its end: the same arguments, descriptors, folder,
environment, limits and exit. It is a child of the one that asked.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import os
import pickle
import resource
import runpy
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from mburst.cli import build_parser
from mburst.python import with_pandas, without_pandas

IMPORTED = [
    "duckdb",
    "jinja2",
    "numpy",
    "plotly.graph_objects",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "mburst.analysis.answers.host",
    "mburst.sql.damage",
    "mburst.sql.repair.checking",
]
MOST = 1 << 18  # bytes of an order


def serve(conn: socket.socket) -> None:
    """Fork for each order, until the other end is closed; in a fork, run the command."""
    while True:
        message, ancillary, _, _ = conn.recvmsg(MOST, socket.CMSG_SPACE(64 * 4))
        if not message:
            return
        received = array.array("i")
        for _, _, content in ancillary:
            received.frombytes(content)
        order = pickle.loads(message)
        if (between := os.fork()) == 0:
            if (child := os.fork()) == 0:
                conn.close()
                os._exit(_exit_code(order, list(received)))
            conn.send(str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)  # the child has the parent that it is to have
        conn.send(b"begun")
        for descriptor in received:
            os.close(descriptor)


def _run(order: dict[str, Any], descriptors: list[int]) -> None:
    while os.getppid() != order["parent"]:
        time.sleep(0.0005)
    _place(descriptors, order["descriptors"])
    if sys.stdout.isatty():  # what else there is of a stream it has already, and nothing was read or written
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    if order["session"]:
        os.setsid()
    if order["group"] != -1:
        os.setpgid(0, order["group"])
    for number, limits in order["limits"].items():
        resource.setrlimit(number, limits)
    os.umask(order["umask"])
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.argv = ["-m", *order["words"][3:]]
    added = dict.fromkeys(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path[: 1 + len(added)] = [order["cwd"], *map(os.path.abspath, added)]
    runpy.run_module(order["words"][2], run_name="__main__", alter_sys=True)


def _exit_code(order: dict[str, Any], descriptors: list[int]) -> int:
    """What the command ends with. Ends as an interpreter does, but for what is imported: to tear that down would cost
    as much as to import it."""
    code: object = None
    try:
        _run(order, descriptors)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1 if isinstance(error, Exception) else error
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if not isinstance(code, int | None | KeyboardInterrupt):
        print(code, file=sys.stderr)
        code = 1
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if isinstance(code, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return code or 0


def _place(received: list[int], wanted: list[int]) -> None:
    """Give descriptors the numbers that they are WANTED by."""
    above = [os.dup(descriptor) for descriptor in received]  # so that none is in the way of another
    while any(descriptor in wanted for descriptor in above):
        above = [os.dup(descriptor) if descriptor in wanted else descriptor for descriptor in above]
    for descriptor, number in zip(above, wanted, strict=True):
        os.dup2(descriptor, number, inheritable=True)
    for descriptor in {*received, *above} - set(wanted):
        os.close(descriptor)


def main() -> None:
    conn = socket.socket(fileno=int(sys.argv[1]))
    conn.set_inheritable(False)
    without_pandas()
    for name in IMPORTED:
        importlib.import_module(name)
    build_parser()  # imports the verbs
    with_pandas()
    gc.collect()
    gc.freeze()
    with suppress(KeyboardInterrupt):
        serve(conn)


if __name__ == "__main__":
    main()
