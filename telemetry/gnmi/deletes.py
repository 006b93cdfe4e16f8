"""Which leaves a notification deletes. A delete names a branch; omitted keys and `*` stand for any value.

Deletes are looked up by their shape (which names are `*`, which keys are given) and not compared one by one, so that
their cost does not grow with their number: a device that sends 20,000 deletes sends one shape, or a few.
"""

from __future__ import annotations

from collections.abc import Iterable

from .limits import DELETE_SHAPES
from .path import Steps, without_module

Shape = tuple[tuple[bool, tuple[str, ...]], ...]  # for each step: whether its name is `*`, and the given keys


class Branches:
    """The branches that deletes name. `refused` is the number of deletes that exceed the limit of shapes and are not
    among them."""

    def __init__(self, paths: Iterable[Steps]) -> None:
        self._shapes: dict[Shape, set[tuple[str, ...]]] = {}
        self.refused = 0
        for path in paths:
            shape, words = _taken_apart(path)
            if shape not in self._shapes and len(self._shapes) >= DELETE_SHAPES:
                self.refused += 1
            else:
                self._shapes.setdefault(shape, set()).add(words)

    def cover(self, steps: Steps) -> bool:
        """Whether a path is one of the branches or lies under one (path.covers does the same for two paths)."""
        names = [without_module(name) for name, _ in steps]
        keys = [dict(found) for _, found in steps]
        for shape, wanted in self._shapes.items():
            words = _projected(names, keys, shape)
            if words is not None and words in wanted:
                return True
        return False


def _taken_apart(path: Steps) -> tuple[Shape, tuple[str, ...]]:
    """The shape of a delete, and its names and values of keys in the order of the shape."""
    shape, words = [], []
    for name, keys in path:
        given = [(key, value) for key, value in keys if value != "*"]
        shape.append((name == "*", tuple(key for key, _ in given)))
        words += [] if name == "*" else [without_module(name)]
        words += [value for _, value in given]
    return tuple(shape), tuple(words)


def _projected(names: list[str], keys: list[dict[str, str]], shape: Shape) -> tuple[str, ...] | None:
    """The names and values that a delete of this shape must have to cover a path; None if no delete can."""
    if len(shape) > len(names):
        return None
    words = []
    for name, have, (any_name, given) in zip(names, keys, shape, strict=False):
        if not any_name:
            words.append(name)
        for key in given:
            value = have.get(key)
            if value is None:
                return None
            words.append(value)
    return tuple(words)
