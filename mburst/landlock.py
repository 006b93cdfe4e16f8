"""Landlock: a process gives up files for good (landlock(7), Linux 5.13 and later). Needs no rights but no_new_privs."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1

# LANDLOCK_ACCESS_FS_*, linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FIRST = (1 << 13) - 1  # all of the first version
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _READ_FILE | _READ_DIR
_WRITES = _READS | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Of Landlock in this kernel; 0 where it has none, or it is switched off."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


def restrict(reads: Iterable[str], writes: Iterable[str]) -> bool:
    """Let this thread, and those that it starts, read the files READS and what is below them, write WRITES likewise,
    and start no program. Paths that there are not are left out. False, with nothing changed, where the kernel cannot.

    The process must have no_new_privs."""
    known = version()
    if not known:
        return False
    handled = _FIRST | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    attributes = _Ruleset(handled)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    ruleset = int(_libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    if ruleset < 0:
        return False
    try:
        for paths, access in ((reads, _READS), (writes, _WRITES)):
            for path in paths:
                _allow(ruleset, path, access & handled)
        return bool(_libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rule = _PathBeneath(access if is_folder else access & _OF_FILES, opened)
        if _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(opened)
