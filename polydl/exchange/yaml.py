"""Reads YAML with the place of each value, so that every error names its line and column; writes YAML for isl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from polydl.base.errors import InputError, Span
from polydl.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A value in the file, with its place."""

    node: yaml.Node
    file: str
    lines: tuple[str, ...]

    @property
    def span(self) -> Span:
        """Where the value begins."""
        mark = self.node.start_mark
        text = self.lines[mark.line] if mark.line < len(self.lines) else None
        return Span(self.file, mark.line + 1, mark.column + 1, 1, text)

    def error(self, reason: str, hint: str | None = None, topic: str | None = None) -> InputError:
        return InputError(reason, self.span, hint, topic)

    def mapping(self) -> dict[str, Place]:
        """The values of a mapping by their keys. Raises InputError for another kind of value, and for repeated keys."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error("a mapping is expected here", "as in schedule: …")
        found: dict[str, Place] = {}
        for key, value in self.node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise Place(key, self.file, self.lines).error("a key is a word")
            if key.value in found:
                raise Place(key, self.file, self.lines).error(f"the key '{key.value}' occurs twice")
            found[str(key.value)] = Place(value, self.file, self.lines)
        return found

    def sequence(self) -> Iterator[Place]:
        """The values of a list. Raises InputError for another kind of value."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.error("a list is expected here", "as in - filter: …")
        return (Place(value, self.file, self.lines) for value in self.node.value)

    def text(self) -> str:
        """The text of a scalar. Raises InputError for another kind of value."""
        if not isinstance(self.node, yaml.ScalarNode):
            raise self.error("a text is expected here", "quote isl's notation: it has braces")
        return str(self.node.value)


@dataclass(frozen=True, slots=True)
class Document:
    """The schedule of a scop in a file."""

    tree: Place
    """The mapping with the key `domain`."""


def read(path: Path, function: str, line: int) -> Document:
    """Find the document of a scop in a file: the only one, or the one for its function, and of several the one for its
    line.

    A document is a schedule tree, or what `polydl export` writes, which has the tree under `schedule`. The tree may be
    a text, as pet writes it. Raises InputError with the place.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the schedule {path}: {error}", hint="polydl export writes one") from error
    roots = _roots(text, str(path))
    if not roots:
        raise InputError(f"{path} has no schedule", hint="polydl export writes one")
    chosen = roots[0]
    if len(roots) > 1:
        labelled = [(_value(root, "function"), _value(root, "line"), root) for root in roots]
        named = [(at, root) for name, at, root in labelled if name == function]
        if not named:
            raise chosen.error(f"none of the {len(roots)} documents is of the function {function}")
        chosen = next((root for at, root in named if at == str(line)), named[0][1])
    fields = chosen.mapping()
    if "schedule" in fields and "child" not in fields:
        chosen = fields["schedule"]
        if isinstance(chosen.node, yaml.ScalarNode):
            inner = _roots(chosen.text(), str(path))
            if len(inner) != 1:
                raise chosen.error("not one schedule tree")
            # Places inside of a text count from its beginning.
            chosen = Place(inner[0].node, f"{path}: schedule", inner[0].lines)
    return Document(chosen)


def _value(root: Place, key: str) -> str:
    """The text under a key of a document; empty where it is missing."""
    value = root.mapping().get(key)
    return value.text() if value is not None else ""


def _roots(text: str, file: str) -> list[Place]:
    lines = tuple(text.splitlines())
    try:
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = None
        if mark is not None:
            shown = lines[mark.line] if mark.line < len(lines) else None
            where = Span(file, mark.line + 1, mark.column + 1, 1, shown)
        raise InputError(f"not YAML: {error.problem}", where) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{file} is not YAML: {error}") from error
    return [Place(node, file, lines) for node in nodes]


class _Dumper(yaml.SafeDumper):
    """Writes texts in double quotes, the only kind of quotes that isl's own reader knows."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isidentifier() else '"')


_Dumper.add_representer(str, _text)


def dumps(documents: Sequence[Mapping[str, Any]]) -> str:
    """The YAML text of several documents: keys in their order, each text on one line."""
    return str(yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=float("inf"), allow_unicode=True))
