"""The two texts of a loop string, taken apart: letters with what they carry, sizes by loop; errors with the place.

What they mean for a nest is said in polydl.schedule.loopstring.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from dataclasses import field, replace

from polydl.base.errors import InputError, Span
from polydl.base.records import dataclass
from polydl.schedule.loops import BY_ENTRIES, HILBERT, OMP_SCHEDULE

_AXIS = re.compile(r"\{\s*([RCL])\s*:\s*([0-9]+)\s*(\+?)\s*\}")
_CLAUSE = re.compile(r"schedule\((.*)\)")
NOWAIT = "nowait"
_BLOCKS = re.compile(r"(?<!\S)(?:\w+:\s*)?\S*=")
_NEST = re.compile(r"\s*([A-Za-z_]\w*)\s*:")


@dataclass(frozen=True, slots=True)
class Written:
    """A text and where it stands, for errors with a caret."""

    text: str
    file: str
    """A file's name, or the option that the text was given with."""
    line: int = 1
    column: int = 1
    """Of the text's first character in `whole`, 1-based."""
    whole: str | None = None
    """The line that holds the text; None: the text itself."""

    def error(self, reason: str, at: int = 0, length: int | None = None, hint: str | None = None) -> InputError:
        """An error at the text's character `at` (0-based)."""
        whole = self.text if self.whole is None else self.whole
        wide = max(1, len(self.text) - at if length is None else length)
        return InputError(reason, Span(self.file, self.line, self.column + at, wide, whole), hint)

    def part(self, start: int, end: int) -> Written:
        """A piece of the text."""
        whole = self.text if self.whole is None else self.whole
        return replace(self, text=self.text[start:end], column=self.column + start, whole=whole)


def split_line(line: Written) -> tuple[Written, Written]:
    """Loop string and blocks of one line: the blocks begin with the first word that holds an equals sign, or with the
    name of a nest in front of it."""
    said = line.text.rstrip()
    start = len(said) - len(said.lstrip())
    sizes = _BLOCKS.search(said)
    at = sizes.start() if sizes else len(said)
    return line.part(start, start + len(said[start:at].rstrip())), line.part(at, len(said))


def by_nest(written: Written) -> list[tuple[str | None, Written]]:
    """The pieces of `S0: ab; S1: bcA`, each with the nest that is named in front of it, None where none is. A piece
    without a name belongs to the one before it, as in `S0: b=12,4;c=8; S1: c=2`."""
    found: list[tuple[str | None, int, int]] = []
    at = 0
    for text in written.text.split(";"):
        named = _NEST.match(text)
        if named is None and found:
            found[-1] = (*found[-1][:2], at + len(text))
        else:
            found.append((named and named[1], at + (named.end() if named else 0), at + len(text)))
        at += len(text) + 1
    return [(name, written.part(start, end)) for name, start, end in found]


@dataclass(frozen=True, slots=True)
class Level:
    """One letter of a loop string."""

    letter: str
    """Lower case."""
    parallel: bool
    at: int
    """Place in the string."""
    axis: str = ""
    ways: int = 0
    summed: bool = False
    barrier: bool = False
    shared: bool = False
    """The loops up to this one are shared with other nests."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A blocks text, taken apart; the values with their places."""

    sizes: Mapping[str, tuple[tuple[int, ...], Written]] = field(default_factory=dict)
    kernel: Written | None = None
    packs: Written | None = None
    share: Written | None = None


def levels(written: Written) -> tuple[tuple[Level, ...], str, bool]:
    """The letters of a loop string, what its schedule clause says, and whether it says `nowait`. Raises InputError with
    the place."""
    body, at_sign, clause = written.text.partition("@")
    found: list[Level] = []
    at = 0
    while at < len(body):
        c = body[at]
        if c in string.ascii_letters:
            found.append(Level(c.lower(), c.isupper(), at))
        elif c == "|" and found and not found[-1].barrier:
            found[-1] = replace(found[-1], barrier=True)
        elif c == "&" and found:
            if any(level.shared for level in found):
                raise written.error("the loops that are shared end twice", at, 1)
            found[-1] = replace(found[-1], shared=True)
        elif c == "{" and found and found[-1].parallel and not found[-1].axis and not found[-1].barrier:
            axis = _AXIS.match(body, at)
            if axis is None or int(axis[2]) < 1:
                raise written.error("not the axis of a thread grid", at, hint="as in C{R:16}: R, C or L, then threads")
            found[-1] = replace(found[-1], axis=axis[1], ways=int(axis[2]), summed=bool(axis[3]))
            at = axis.end() - 1
        elif not c.isspace():
            raise written.error(
                f"'{c}' means nothing here", at, 1, "letters, {R:16} after an upper-case one, |, & and @"
            )
        at += 1
    if not found:
        raise written.error("a loop string without a loop")
    schedule = "".join(clause.split())
    nowait = schedule.endswith(NOWAIT)
    schedule = schedule.removesuffix(NOWAIT)
    if not at_sign or (nowait and not schedule) or schedule in (HILBERT, BY_ENTRIES):
        return tuple(found), schedule, nowait
    said = _CLAUSE.fullmatch(schedule)
    if said is None or not OMP_SCHEDULE.fullmatch(said[1]):
        raise written.error(
            "not a schedule clause of OpenMP",
            len(body) + 1,
            hint="as in @schedule(dynamic,1), @hilbert, @entries or @nowait",
        )
    return tuple(found), said[1], nowait


def blocks(written: Written, names: Mapping[str, str]) -> Blocks:
    sizes: dict[str, tuple[tuple[int, ...], Written]] = {}
    reserved: dict[str, Written] = {}
    at = 0
    for text in written.text.split(";"):
        part = written.part(at, at + len(text))
        at += len(text) + 1
        if not text.strip():
            continue
        key, equals, value = text.partition("=")
        place = part.part(len(key) + 1, len(text))
        if not equals or not value.strip():
            raise part.error("not LOOP=SIZE,…", hint="as in b=12,4;c=8;mk=14x32:k")
        key = key.strip()
        if key in ("mk", "pack", "share"):
            if key in reserved:
                raise part.error(f"{key} is given twice")
            reserved[key] = place
            continue
        loop = loop_named(key, names, part)
        numbers = [n.strip() for n in value.split(",")]
        if loop in sizes:
            raise part.error(f"sizes of {loop} are given twice")
        if not all(n.isascii() and n.isdigit() and int(n) > 0 for n in numbers):
            raise place.error("sizes must be positive integers with commas between them")
        sizes[loop] = (tuple(int(n) for n in numbers), place)
    return Blocks(sizes, reserved.get("mk"), reserved.get("pack"), reserved.get("share"))


def loop_named(name: str, names: Mapping[str, str], where: Written) -> str:
    """A loop by its letter or, if that is none, by its name."""
    if name in names:
        return names[name]
    if name in names.values():
        return name
    known = ", ".join(f"{letter} ({loop})" for letter, loop in names.items())
    raise where.error(f"there is no loop '{name}'", hint=f"the loops are {known}")
