"""Privileges of mburst's own process: once its sockets are open, it keeps only those that reading and storing need.

If it was started as root, it works as the owner of its store (or --user), and is root only while it opens a source.
Whoever started it, it then has no capabilities and cannot gain any. If the kernel has Landlock, it can write only below
its store, and read little else. All of this applies only to mburst's own process (`own_process`), not to a program that
imports mburst.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import resource
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import MburstError, UsageError
from . import landlock

NOBODY = "nobody"
MOST_FILES = 65_536  # most open files
UMASK = 0o027  # data on who sent what to whom is not for every user

# capability(7)
DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID = 1, 2, 6, 7
NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK = 10, 12, 13, 14
PERFMON, BPF = 38, 39
OPENING = frozenset(
    {DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID, NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK, PERFMON, BPF}
)

# prctl(2)
_SET_PDEATHSIG, _GET_PDEATHSIG, _SET_KEEPCAPS = 1, 2, 8

# Files that libraries read at run time. Users other than root may read all of /etc, where files are replaced as
# networks change. Root may not: even without capabilities it owns /etc/shadow.
_READABLE = [
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/networks",
    "/etc/ethers",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/passwd",
    "/etc/group",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
]
_WRITABLE = ["/dev"]

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Owner:
    """The owner of new files."""

    uid: int
    gid: int


class _PrivilegeState:
    """The state of this process; there is only one."""

    own = False  # whether this is mburst's own process
    owner: Owner | None = None  # set while a process of root works as another user
    groups: Sequence[int] = ()  # root's groups, kept for that time


def own_process() -> None:
    """Allow permanent changes of this process. Called at the start of a command. Also raises the limit of open files as
    far as allowed, because the database ends the process if it cannot open a file."""
    _PrivilegeState.own = True
    os.umask(os.umask(0) | UMASK)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_FILES)), hard))


@contextmanager
def shared_process() -> Iterator[None]:
    """In this context commands run one after another in this process, so none may change it permanently."""
    before, _PrivilegeState.own = _PrivilegeState.own, False
    try:
        yield
    finally:
        _PrivilegeState.own = before


def give(paths: Iterable[Path], owner: Owner) -> None:
    """Give what root created at PATHS and below to OWNER, without following links. Raises OSError if that is not
    possible, and for a missing path, because the owner would then lack it."""
    if not _PrivilegeState.own or os.geteuid() != 0 or not owner.uid:
        return
    for path in paths:
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)
        if not stat.S_ISDIR(path.lstat().st_mode):
            continue
        for _, folders, files, at in os.fwalk(path, onerror=_raise):
            for name in (*folders, *files):
                os.chown(name, owner.uid, owner.gid, dir_fd=at, follow_symlinks=False)


def _raise(error: OSError) -> None:
    raise error


def owner_of(store: str | os.PathLike[str], user: str | None = None) -> Owner:
    """Returns the owner of what is written into STORE: USER; or its present owner; or the caller of sudo, if that user
    may create it; or the owner of the folder in which it will be created. Raises UsageError if USER does not exist."""
    if user:
        try:
            found = pwd.getpwnam(user)
        except KeyError:
            raise UsageError(f"--user {user}: no such user") from None
        return Owner(found.pw_uid, found.pw_gid)
    path = Path(store).absolute()
    if path.exists():
        return _owner(path.stat())
    folder = next(parent for parent in path.parents if parent.exists())
    caller = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if all(number.isdecimal() for number in caller):
        owner = Owner(int(caller[0]), int(caller[1]))
        if _may_write(folder.stat(), owner):
            return owner
    return _owner(folder.stat())


def _owner(status: os.stat_result) -> Owner:
    gid = status.st_gid
    if status.st_uid and not gid:  # a folder that root created for a user: root's group is not for the user
        with suppress(KeyError):
            gid = pwd.getpwuid(status.st_uid).pw_gid
    return Owner(status.st_uid, gid)


def _may_write(status: os.stat_result, owner: Owner) -> bool:
    shift = 6 if status.st_uid == owner.uid else 3 if status.st_gid == owner.gid else 0
    return status.st_mode >> shift & 3 == 3


def lower(store: str | os.PathLike[str], user: str | None = None) -> None:
    """If root started this process, work as the owner of STORE from now on, except while `raised`.

    Raises MburstError if USER differs and the process is not root's."""
    if not _PrivilegeState.own:
        return
    if os.geteuid() != 0:
        if user and owner_of(store, user).uid != os.geteuid():
            raise MburstError(f"--user {user}: only root can work as another user")
        _give_up(OPENING, no_new=False)
        return
    owner = owner_of(store, user)
    _give_up(OPENING, no_new=False)
    if owner.uid == 0:
        return
    _PrivilegeState.owner, _PrivilegeState.groups = owner, os.getgroups()
    _work_as(owner)
    _check_reach(owner)


def _work_as(owner: Owner) -> None:
    with _parent_death_signal():
        os.setgroups([owner.gid])
        os.setegid(owner.gid)
        os.seteuid(owner.uid)


def _work_as_root() -> None:
    with _parent_death_signal():
        os.seteuid(0)
        os.setegid(os.getgid())
        os.setgroups(_PrivilegeState.groups)


def _check_reach(owner: Owner) -> None:
    """Raise MburstError if OWNER cannot read the modules, many of which are imported later as that user."""
    for path in (os.__file__, __file__):
        if not os.access(path, os.R_OK, effective_ids=True):
            raise MburstError(
                f"the owner of the store (user {owner.uid}) cannot read {path}, which mburst runs from",
                "install mburst where all can read it, or keep to root with --user root",
            )


@contextmanager
def raised() -> Iterator[None]:
    """In this context, be root again if root started this process, to open a source."""
    owner = _PrivilegeState.owner
    if not owner:
        yield
        return
    _work_as_root()
    try:
        yield
    finally:
        _work_as(owner)


def group() -> int:
    """Returns the group as which this process works, even while it is `raised`."""
    owner = _PrivilegeState.owner
    return owner.gid if owner else os.getegid()


def drop(*, keep: Iterable[int] = ()) -> None:
    """Give up permanently what `raised` would restore, and all capabilities except KEEP."""
    if not _PrivilegeState.own:
        return
    kept, owner = frozenset(keep), _PrivilegeState.owner
    if owner:
        _prctl(_SET_KEEPCAPS, int(bool(kept)))
        with _parent_death_signal():
            os.seteuid(0)
            os.setgroups([owner.gid])
            os.setresgid(owner.gid, owner.gid, owner.gid)
            os.setresuid(owner.uid, owner.uid, owner.uid)
        _PrivilegeState.owner = None
    _give_up(kept)


def settle(user: str | None) -> None:
    """If root started this process, become USER, or nobody, permanently. For processes that write no files, once their
    sockets are open."""
    if not _PrivilegeState.own:
        return
    if os.geteuid() == 0:
        _PrivilegeState.owner = owner_of("/", user or NOBODY)
    drop()


def lasting(path: str | os.PathLike[str]) -> Path:
    """Returns the path that `confine` must allow for reading PATH even if another file is renamed to it or created
    there: the nearest existing folder above it. Returns PATH itself if that folder would be / or /etc, which root must
    not read."""
    above = Path(path).absolute()
    folder = next(one for one in above.parents if os.path.isdir(one))
    return above if folder.resolve() in (Path("/"), Path("/etc")) else folder


def settle_listening(sockets: Sequence[str], user: str | None) -> None:
    """Like `settle`, for processes that write no files, once they listen. If there are Unix sockets, in the folders
    SOCKETS, the process keeps its user, who created them and removes them in the end."""
    confine([], [], sockets)
    if sockets and not user:
        drop()
    else:
        settle(user)


def confine(
    reads: Sequence[str | os.PathLike[str]],
    writes: Sequence[str | os.PathLike[str]],
    removes: Sequence[str | os.PathLike[str]] = (),
    made_in: Path | None = None,
) -> None:
    """Restrict this process. It may write only below WRITES; read WRITES, READS and what Python and libraries read; and
    remove files and empty folders in REMOVES, and empty folders in MADE_IN, where it created its store. Prints a note
    on standard error if root runs this and the kernel does not support it."""
    if not _PrivilegeState.own:
        return
    is_root = os.geteuid() == 0 and _PrivilegeState.owner is None
    readable = [*_READABLE, *([] if is_root else ["/etc"]), *_of_python(), *reads]
    writable = [*_WRITABLE, *writes]
    with (
        raised(),  # the owner of the store may lack access to a path
        landlock.ruleset(readable, writable, removes, [made_in] if made_in else []) as ruleset,
    ):
        _give_up(ruleset=ruleset)
    if ruleset is None and os.getuid() == 0:
        print(
            "mburst: note: this kernel has no Landlock (Linux 5.13): file access of this process is not restricted",
            file=sys.stderr,
        )


def _of_python() -> Iterator[str]:
    """Yields the folders from which modules are imported, including this package, however it is installed."""
    yield from filter(None, [*sys.path, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)])
    package = Path(__file__).resolve().parents[1]
    yield os.fspath(package)
    yield from (os.fspath(room.resolve()) for room in package.iterdir() if room.is_symlink())


# --- system calls -----------------------------------------------------------------------------------------------------


def _prctl(option: int, *values: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])):
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


@contextmanager
def _parent_death_signal() -> Iterator[None]:
    """Keep the parent death signal (PR_SET_PDEATHSIG of prctl(2)), which the kernel clears with each change of user."""
    number = ctypes.c_int()
    _libc.prctl(_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    yield
    if number.value:
        _prctl(_SET_PDEATHSIG, number.value)


def _give_up(kept: frozenset[int] | None = None, ruleset: int | None = None, no_new: bool = True) -> None:
    """Give up privileges in all threads. Reports threads that could not be reached; no known case exists."""
    from ..capture import give_up

    mask = None if kept is None else sum(1 << number for number in kept)
    if left := give_up(mask, ruleset, no_new):
        print(f"mburst: note: {left} threads of this process keep the privileges of its start", file=sys.stderr)
