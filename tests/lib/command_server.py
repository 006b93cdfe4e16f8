"""A process that has imported the modules that mburst imports, and forks commands from it: see forked_commands.py.

Each fork runs `python -m mburst` as a new interpreter does, up to its end: with the same arguments, descriptors,
folder, environment, limits and exit. It is a child of the process that requested it.
"""

from __future__ import annotations

import array
import atexit
import ctypes
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
from mburst.process.python import with_pandas, without_pandas
from mburst.sql import disk

IMPORTED = [
    "duckdb",
    "jinja2",
    "numpy",
    "plotly.graph_objects",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "mburst.analysis.answers.host",
    "mburst.analysis.answers.investigate",
    "mburst.dashboards.investigation.page",
    "mburst.dashboards.rack.page",
    "mburst.dashboards.report.page",
    "mburst.services.record.recorder",
    "mburst.services.record.several",
    "mburst.sql.compaction.compact",
    "mburst.sql.damage",
    "mburst.sql.repair.checking",
]
MOST = 1 << 18  # largest order, in bytes
_CLONE_NEWNET, _CLONE_NEWNS, _MS_SLAVE, _MS_REC, _MNT_DETACH = 0x40000000, 0x00020000, 1 << 19, 1 << 14, 2
_libc = ctypes.CDLL(None, use_errno=True)


def serve(conn: socket.socket) -> None:
    """Forks for each order, until the other end is closed; in a fork, runs the command."""
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
        os.waitpid(between, 0)  # the child now has its intended parent
        conn.send(b"begun")
        for descriptor in received:
            os.close(descriptor)


def _run(order: dict[str, Any], descriptors: list[int]) -> None:
    while os.getppid() != order["parent"]:
        time.sleep(0.0005)
    _place(descriptors, order["descriptors"])
    if sys.stdout.isatty():  # all other attributes of a stream are already right, and nothing was read or written
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    if order["session"]:
        os.setsid()
    if order["group"] != -1:
        os.setpgid(0, order["group"])
    if order["namespace"]:
        _enter(order["namespace"])
    for number, limits in order["limits"].items():
        resource.setrlimit(number, limits)
    os.umask(order["umask"])
    disk.SYNC_S = order["sync_s"]
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _run_words(order["words"][1:], order["cwd"])


def _run_words(words: list[str], cwd: str) -> None:
    """Runs the words after the interpreter: -m MODULE WORD…, or SCRIPT WORD…"""
    is_module = words[0] == "-m"
    sys.argv = ["-m", *words[2:]] if is_module else words
    added = dict.fromkeys(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path[: 1 + len(added)] = [cwd if is_module else os.path.dirname(words[0]), *map(os.path.abspath, added)]
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


def _enter(namespace: str) -> None:
    """Enters a network namespace as `ip netns exec` does (ip-netns(8)): with the /sys of its interfaces, in a mount
    namespace of this process."""
    with open(f"/run/netns/{namespace}") as there:
        _call(_libc.setns, there.fileno(), _CLONE_NEWNET)
    _call(_libc.unshare, _CLONE_NEWNS)
    _call(_libc.mount, b"", b"/", b"none", ctypes.c_ulong(_MS_SLAVE | _MS_REC), None)
    is_left = _libc.umount2(b"/sys", _MNT_DETACH) < 0
    flags = os.statvfs("/sys").f_flag & os.ST_RDONLY if is_left else 0
    _call(_libc.mount, namespace.encode(), b"/sys", b"sysfs", ctypes.c_ulong(flags), None)


def _call(function: Any, *arguments: object) -> None:
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), f"{function.__name__}: {os.strerror(ctypes.get_errno())}")


def _exit_code(order: dict[str, Any], descriptors: list[int]) -> int:
    """Returns the exit code of the command. Ends as an interpreter does, but without tearing down the imported modules,
    which would cost as much as importing them."""
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
    """Gives descriptors the numbers in WANTED."""
    above = [os.dup(descriptor) for descriptor in received]  # so that none of them is overwritten
    while any(descriptor in wanted for descriptor in above):
        above = [os.dup(descriptor) if descriptor in wanted else descriptor for descriptor in above]
    for descriptor, number in zip(above, wanted, strict=True):
        os.dup2(descriptor, number, inheritable=True)
    for descriptor in {*received, *above} - set(wanted):
        os.close(descriptor)


def _draw_first() -> None:
    """Does the one-time work of the first page of a process: plotly creates its classes, jinja compiles templates."""
    import plotly.graph_objects as go

    from mburst.dashboards.common import page, plotlyjs

    axis = {"title": {"text": "", "font": {"size": 9}}, "tickfont": {"size": 9}}
    go.Figure(go.Scatter(x=[0], y=[0], line={"width": 1}, marker={"size": 1}), {"xaxis": axis, "yaxis": axis})
    go.Figure(go.Bar(x=[0], y=[0]), {"margin": {"l": 0}, "font": {"size": 9}})
    for template in page._environment().list_templates():
        page._environment().get_template(template)
    plotlyjs.packed()


def main() -> None:
    conn = socket.socket(fileno=int(sys.argv[1]))
    conn.set_inheritable(False)
    without_pandas()
    for name in IMPORTED:
        importlib.import_module(name)
    build_parser()  # imports the verbs
    _draw_first()
    with_pandas()
    gc.collect()
    gc.freeze()
    with suppress(KeyboardInterrupt):
        serve(conn)


if __name__ == "__main__":
    main()
