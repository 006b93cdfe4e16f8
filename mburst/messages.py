"""What mburst prints beside its results: messages and a progress line on standard error, and lines on standard output.
Invisible characters in them are escaped (names.py)."""

from __future__ import annotations

import os
import sys

from .names import shown

PROGRESS = "\r\033[K"  # begins what replaces a progress line


def print_message(text: str) -> None:
    """Print a message of mburst on standard error. It replaces a progress line."""
    place = PROGRESS if sys.stderr.isatty() else ""
    print(f"{place}mburst: {shown(text)}\n", end="", file=sys.stderr, flush=True)  # one write: other threads print, too


def print_error(error: Exception) -> None:
    """Print the message of an error on standard error while the work continues."""
    print_message(str(error))


def print_progress(text: str) -> None:
    """Print TEXT as the progress line on standard error, in place of the previous one. It is cut to the width of the
    terminal, because a second row would remain on the screen."""
    line = shown(text)
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # not a terminal
        columns = 0
    if 0 < columns <= len(line):
        line = line[: max(columns - 2, 0)] + "…" * (columns > 1)
    print(f"{PROGRESS}{line}", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    """Remove the progress line, if standard error is a terminal."""
    if sys.stderr.isatty():
        print(PROGRESS, end="", file=sys.stderr, flush=True)


def print_lines(*lines: str) -> None:
    """Print lines for people on standard output."""
    for line in lines:
        print(shown(line), flush=True)


def report_lines(*lines: str) -> None:
    """Print lines about work that goes on. If they cannot be printed, as on a full disk, that is reported on standard
    error, and the work goes on. A reader who has left, as `head` does, is no trouble."""
    try:
        print_lines(*lines)
    except (BrokenPipeError, ConnectionResetError):
        pass
    except OSError as error:
        print_message(f"{error.filename}: {error.strerror}")
