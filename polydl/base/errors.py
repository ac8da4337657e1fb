"""The error tree. Every message a user can see carries a place in a source, a reason and a way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from polydl.base.keywords import in_python
from polydl.base.records import dataclass


def one_of(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is none of the known ones: the nearest of them, and all of them."""
    names = tuple(known)
    near = difflib.get_close_matches(word, names, n=1)
    nearest = f"did you mean '{near[0]}'? " if near else ""
    return f"{nearest}choose one of {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source file."""

    file: str
    """Path as the user gave it."""
    line: int
    """1-based."""
    column: int
    """1-based, in characters."""
    length: int = 1
    """Characters to underline, at least 1."""
    text: str | None = None
    """The source line, without its newline; None when the source cannot be shown."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


_WIDEST = 160
"""Characters shown of a source line."""
_MOST_SHOWN = 20
"""Errors shown of one input."""


def _underlined(span: Span, text: str) -> tuple[str, str]:
    """The source line and the line with the caret; of a very long line, the part around the caret."""
    column, after = span.column - 1, ""
    start = max(0, column - _WIDEST // 2) if len(text) > _WIDEST else 0
    before = "…" if start else ""
    if len(text) > start + _WIDEST:
        after = "…"
    text = text[start : start + _WIDEST]
    gap = "".join("\t" if c == "\t" else " " for c in before + text[: column - start])
    length = max(1, min(span.length, len(text) - (column - start)))
    # Characters that a terminal would obey are shown as what they are not: a placeholder of the same width.
    shown = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"{before}{shown}{after}", f"{gap}^{'~' * (length - 1)}"


def _rendered(level: str, reason: str, span: Span | None, hint: str | None, topic: str | None = None) -> str:
    lines = [f"{f'{span}: ' if span else ''}{level}: {reason}"]
    if span is not None and span.text is not None:
        lines += [f"    {line}" for line in _underlined(span, span.text)]
    if hint:
        lines.append(f"  help: {hint}")
    if topic:
        lines.append(f"  see: polydl why {topic} (docs/refused.md#{topic})")
    return "\n".join(lines)


class PolyDLError(Exception):
    """Base of every error that polydl raises on purpose.

    `reason` says what is wrong, `span` where, `hint` what to do about it, `topic` which paragraph says more: a heading
    of docs/refused.md, which `polydl why` prints.
    """

    exit_code = 1

    def __init__(
        self, reason: str, span: Span | None = None, hint: str | None = None, topic: str | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span
        self.hint = hint
        self.topic = topic

    def render(self, *, python: bool = False) -> str:
        """The message as people read it: `file:line:column: error: …`, source line, caret, hint, topic.

        Hints are written in the words of the command line; `python`: they are shown in those of the Python API.
        """
        hint = in_python(self.hint) if self.hint and python else self.hint
        return _rendered("error", self.reason, self.span, hint, self.topic)

    def __str__(self) -> str:
        return self.render(python=True)


class OutputError(PolyDLError):
    """What polydl made of a region does not do what the source does: a mistake in polydl. Exit code 3; the output has
    the region as it was written."""

    exit_code = 3


class InputError(PolyDLError):
    """The user's input (C file, pragma, option, machine file) is at fault. Exit code 2."""

    exit_code = 2


class InputErrors(InputError):
    """Several errors of one input, reported at once."""

    def __init__(self, errors: Iterable[InputError]) -> None:
        self.errors = tuple(errors)
        if not self.errors:
            raise ValueError("InputErrors needs at least one error")
        super().__init__(self.errors[0].reason, self.errors[0].span, self.errors[0].hint, self.errors[0].topic)

    def render(self, *, python: bool = False) -> str:
        shown = [error.render(python=python) for error in self.errors[:_MOST_SHOWN]]
        if len(self.errors) > _MOST_SHOWN:
            shown.append(f"… and {len(self.errors) - _MOST_SHOWN} more errors")
        return "\n".join(shown)


class InputWarning(UserWarning):
    """Something in the user's input that is probably a mistake, and doesn't stop polydl."""

    def __init__(self, reason: str, span: Span, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span
        self.hint = hint

    def __str__(self) -> str:
        return _rendered("warning", self.reason, self.span, self.hint)


class ToolchainError(PolyDLError):
    """The compiler is missing or failed, or nothing could be run. Exit code 1."""


class NotMeasurable(InputError):
    """The data of a region cannot be made at its sizes: they do not fit in memory, or arrays have no elements."""


class QuotaExceeded(PolyDLError):
    """An isl operation needed more than its quota of elementary operations. Exit code 1."""


class IllegalVariant(InputError):
    """A recipe breaks a dependence. The reason names the dependence and a pair of iterations."""


class StoreError(PolyDLError):
    """The store of measurements cannot be read or written. Exit code 1; what was committed before is not touched."""


class Interrupted(PolyDLError):
    """The user ended a long run (Ctrl-C) of which the part that was done is kept. Exit code 130."""

    exit_code = 130


class ModelError(PolyDLError):
    """A trained model's file cannot be used: damaged, of another kind, or made for other features. Exit code 1."""


class ArgumentTypeError(InputError, TypeError):
    """An argument of a compiled kernel has the wrong type or element type. Also a TypeError."""


class ArgumentValueError(InputError, ValueError):
    """An argument of a compiled kernel has the wrong shape, layout or value. Also a ValueError."""
