"""A configuration file in YAML, JSON or TOML → mappings, lists and texts.

Every scalar stays the text that was written, so that a password such as 0123 or `yes` is exactly that.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ...errors import MburstError, UsageError
from ...units import WrittenFloat


def content_of(path: str) -> Any:
    """Returns the content of a file, as JSON, TOML or YAML according to its name. Raises MburstError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise MburstError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from None
    kind = Path(path).suffix.lower()
    try:
        if kind == ".json":
            return _as_texts(json.loads(text, parse_float=WrittenFloat))
        if kind == ".toml":
            return _as_texts(tomllib.loads(text, parse_float=WrittenFloat))
        return _yaml(path, text)
    except ValueError as error:
        raise UsageError(f"{path}: invalid {kind[1:].upper() or 'YAML'}: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply") from None


def _as_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _as_texts(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_as_texts(below) for below in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _yaml(path: str, text: str) -> Any:
    import yaml

    try:
        return _as_texts(yaml.load(text, _loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UsageError(f"{path}{where}: invalid YAML: {problem}") from None


@cache
def _loader() -> Any:
    """PyYAML's safe loader, which leaves scalars as they are written and refuses duplicate keys."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"the key {key.value!r} is given twice", key.start_mark
                        )
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, match) for tag, match in resolvers if tag.endswith((":null", ":merge"))]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader
