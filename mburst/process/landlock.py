"""Landlock restricts the files that a process may still use (landlock(7), Linux 5.13 and later)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_CREATE_RULESET, _ADD_RULE = 444, 445  # the same on every architecture
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1

# LANDLOCK_ACCESS_FS_*, linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FIRST = (1 << 13) - 1  # all rights of the first version
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READS = _READ_FILE | _READ_DIR
_WRITES = _READS | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE

StrPath = str | os.PathLike[str]

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def version() -> int:
    """Returns the version of Landlock in this kernel, 0 if it has none or it is disabled."""
    return max(int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


@contextmanager
def ruleset(
    reads: Iterable[StrPath],
    writes: Iterable[StrPath],
    removes: Iterable[StrPath] = (),
    empties: Iterable[StrPath] = (),
) -> Iterator[int | None]:
    """Yields the descriptor of a ruleset. It allows reading the files READS, and everything below folders among them;
    writing WRITES in the same way; removing files and empty folders in REMOVES, and empty folders in EMPTIES; and
    starting no program. Missing paths are left out. Yields None if the kernel does not support it."""
    known = version()
    handled = _FIRST | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    attributes = _Ruleset(handled)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    made = int(_libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0)) if known else -1
    if made < 0:
        yield None
        return
    try:
        for paths, access in (
            (reads, _READS),
            (writes, _WRITES),
            (removes, _REMOVE_DIR | _REMOVE_FILE),
            (empties, _REMOVE_DIR),
        ):
            for path in paths:
                _allow(made, path, access & handled)
        yield made
    finally:
        os.close(made)


def _allow(ruleset: int, path: StrPath, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(opened).st_mode)
        rule = _PathBeneath(access if is_folder else access & _OF_FILES, opened)
        if _libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fspath(path))
    finally:
        os.close(opened)
