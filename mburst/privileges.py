"""What a process of mburst may still do once its sockets are open: nothing that reading and storing does not need.

Started as root, it works as the owner of its store (or --user), and is root only while a source is opened. Whoever
started it, it then has no capabilities, can gain none, and where the kernel has Landlock it can write nowhere but below
its store and read little else. All of this holds for a process that is mburst's own (`own_process`): a program that
imports mburst is left alone.
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

from . import landlock
from .errors import MburstError, UsageError

NOBODY = "nobody"
MOST_FILES = 65_536  # open at a time
UMASK = 0o027  # who sent what to whom is not for all to read

# capability(7)
DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID = 1, 2, 6, 7
NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK = 10, 12, 13, 14
PERFMON, BPF = 38, 39
OPENING = frozenset(
    {DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID, NET_BIND_SERVICE, NET_ADMIN, NET_RAW, IPC_LOCK, PERFMON, BPF}
)

# prctl(2)
_SET_PDEATHSIG, _GET_PDEATHSIG, _SET_KEEPCAPS = 1, 2, 8

# Read by libraries while they run. All of /etc, whose files are replaced as networks change, only by another than root:
# without capabilities he still owns /etc/shadow.
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
    """Whom files are to belong to."""

    uid: int
    gid: int


class _PrivilegeState:
    """Of this process; there is one."""

    own = False  # whether the process is mburst's
    owner: Owner | None = None  # while it works as another user than root, who started it
    groups: Sequence[int] = ()  # root's own, meanwhile


def own_process() -> None:
    """At the start of a command: what follows may change this process for good. It may open as many files as it can be
    allowed to, since the database ends the process where it cannot open one."""
    _PrivilegeState.own = True
    os.umask(os.umask(0) | UMASK)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_FILES)), hard))


@contextmanager
def shared_process() -> Iterator[None]:
    """Meanwhile, commands run in this process one after the other, so that none may change it for good."""
    before, _PrivilegeState.own = _PrivilegeState.own, False
    try:
        yield
    finally:
        _PrivilegeState.own = before


def give(paths: Iterable[Path], owner: Owner) -> None:
    """Have what root made at PATHS, and below them, belong to OWNER. Follows no links. Raises OSError where that is not
    possible, and for a path that there is not: nobody would have what was made for him."""
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
    """Who is to own what is written into STORE: USER, who owns it already, who called sudo where he may make it, or
    the owner of the folder in which it will be made. Raises UsageError for a user that there is not."""
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
    if status.st_uid and not gid:  # a folder that root made for somebody: root's group is not for him
        with suppress(KeyError):
            gid = pwd.getpwuid(status.st_uid).pw_gid
    return Owner(status.st_uid, gid)


def _may_write(status: os.stat_result, owner: Owner) -> bool:
    shift = 6 if status.st_uid == owner.uid else 3 if status.st_gid == owner.gid else 0
    return status.st_mode >> shift & 3 == 3


def lower(store: str | os.PathLike[str], user: str | None = None) -> None:
    """Work as the owner of STORE from here on where root started this, but for what is done while `raised`.

    Raises MburstError where another than root asks for another user."""
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
    """Much is imported later on, as that user."""
    for path in (os.__file__, __file__):
        if not os.access(path, os.R_OK, effective_ids=True):
            raise MburstError(
                f"the owner of the store (user {owner.uid}) cannot read {path}, which mburst runs from",
                "install mburst where all can read it, or keep to root with --user root",
            )


@contextmanager
def raised() -> Iterator[None]:
    """Meanwhile, be root again where root started this: to open a source."""
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
    """The group as which this process works, also while it is `raised`."""
    owner = _PrivilegeState.owner
    return owner.gid if owner else os.getegid()


def drop(*, keep: Iterable[int] = ()) -> None:
    """Give up for good what `raised` would bring back, and all capabilities but KEEP."""
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
    """For what writes no files, once its sockets are open: be USER, or nobody, for good where root started this."""
    if not _PrivilegeState.own:
        return
    if os.geteuid() == 0:
        _PrivilegeState.owner = owner_of("/", user or NOBODY)
    drop()


def lasting(path: str | os.PathLike[str]) -> Path:
    """What `confine` has to let a process read so that it can read PATH also when another file was renamed into its
    place, or is made there: the nearest folder above it that there is. PATH alone where that would be all, or the /etc
    that root is not to read."""
    above = Path(path).absolute()
    folder = next(one for one in above.parents if os.path.isdir(one))
    return above if folder in (Path("/"), Path("/etc")) else folder


def settle_listening(sockets: Sequence[str], user: str | None) -> None:
    """For what writes no files and listens, once it does: as `settle`, but where there are Unix sockets, in the folders
    SOCKETS, it stays who made them, who removes them in the end."""
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
    """Let this process write below WRITES alone, read those, READS and what Python itself and libraries read, remove
    files and empty folders of REMOVES, and empty folders of MADE_IN, where it made its store. Says so on standard
    error where root runs this and the kernel cannot."""
    if not _PrivilegeState.own:
        return
    is_root = os.geteuid() == 0 and _PrivilegeState.owner is None
    readable = [*_READABLE, *([] if is_root else ["/etc"]), *_of_python(), *reads]
    writable = [*_WRITABLE, *writes]
    with (
        raised(),  # the way to a path may be shut to the owner of the store
        landlock.ruleset(readable, writable, removes, [made_in] if made_in else []) as ruleset,
    ):
        _give_up(ruleset=ruleset)
    if ruleset is None and os.getuid() == 0:
        print(
            "mburst: note: this kernel has no Landlock (Linux 5.13): file access of this process is not restricted",
            file=sys.stderr,
        )


def _of_python() -> Iterator[str]:
    """Where modules are imported from, this package among them however it is installed."""
    yield from filter(None, [*sys.path, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)])
    package = Path(__file__).resolve().parent
    yield os.fspath(package)
    yield from (os.fspath(room.resolve()) for room in package.iterdir() if room.is_symlink())


# --- the calls --------------------------------------------------------------------------------------------------------


def _prctl(option: int, *values: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])):
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


@contextmanager
def _parent_death_signal() -> Iterator[None]:
    """The kernel forgets the signal of prctl(2)'s PR_SET_PDEATHSIG with each change of user: ask again."""
    number = ctypes.c_int()
    _libc.prctl(_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    yield
    if number.value:
        _prctl(_SET_PDEATHSIG, number.value)


def _give_up(kept: frozenset[int] | None = None, ruleset: int | None = None, no_new: bool = True) -> None:
    """In all threads. Says so where one could not be reached, which nothing known here does."""
    from .capture import give_up

    mask = None if kept is None else sum(1 << number for number in kept)
    if left := give_up(mask, ruleset, no_new):
        print(f"mburst: note: {left} threads of this process keep the privileges of its start", file=sys.stderr)
