"""Diagnostics about the input, for editors and other tools: in the style of gcc, and as SARIF.

SARIF: Static Analysis Results Interchange Format, version 2.1.0 (OASIS Standard, 2020); section numbers below are its.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from polydl.base.errors import InputErrors, PolyDLError, Span
from polydl.base.records import dataclass
from polydl.base.resources import refused
from polydl.base.version import __version__


class Level(Enum):
    """Severity of a diagnostic; the values are the words of gcc and SARIF."""

    ERROR = "error"
    """No output was made."""
    WARNING = "warning"
    NOTE = "note"
    """A decision: why something was not optimized, what was assumed."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about the input."""

    level: Level
    rule: str
    """Stable name of the kind of diagnostic: `InputError`, `assumed`, or the heading of docs/refused.md."""
    reason: str
    span: Span | None = None
    hint: str | None = None


def of_error(error: PolyDLError) -> list[Diagnostic]:
    """The diagnostics for an error, one for each where it holds several."""
    single = error.errors if isinstance(error, InputErrors) else (error,)
    return [Diagnostic(Level.ERROR, e.topic or type(e).__name__, e.reason, e.span, e.hint) for e in single]


def of_document(document: Mapping[str, Any], file: Path) -> list[Diagnostic]:
    """The diagnostics for each scop of a file, from the document that `--json` prints (optimize, rank, analyze,
    fuse)."""
    return [d for scop in document.get("scops", [document]) for d in _of_scop(scop, file)]


def _of_scop(scop: Mapping[str, Any], file: Path) -> Iterator[Diagnostic]:
    span = Span(str(file), scop["line"], 1)
    function = scop["function"]

    def say(level: Level, rule: str, reason: str) -> Diagnostic:
        return Diagnostic(level, rule, f"{function}: {reason}", span)

    if "chosen" in scop:
        yield say(Level.NOTE, "optimized" if scop["chosen"] != "original" else "not-optimized", _verdict(scop))
    for reason in scop.get("warnings", ()):
        yield say(Level.WARNING, "measurement", reason)
    for variant in scop.get("variants", ()):
        if not variant.get("verified", True):
            yield say(
                Level.WARNING, "dropped", f"variant {variant['id']} {variant['status']}: {_line(variant['message'])}"
            )
    for reason in scop.get("illegal", ()):
        yield say(Level.NOTE, "illegal", f"refused: {reason}")
    for reason in scop.get("given_up", ()):
        yield say(Level.NOTE, "given-up", reason)
    for decision in scop.get("decisions", ()):
        if not decision["fused"]:
            pair = f"{decision['nest']} into {decision['into']}"
            yield say(Level.NOTE, "not-fused", f"{pair} not fused: {decision['reason']}")
    if "parallel_loops" in scop:
        loops = ", ".join(scop["parallel_loops"]) or "none"
        yield say(Level.NOTE, "parallel-loops", f"parallel loops: {loops}")
    for reason in scop.get("notes", ()):
        yield say(Level.NOTE, "note", reason)
    for asked in scop.get("asked", ()):
        yield say(Level.NOTE, "asked", f"asked where it runs: {asked}")
    for reason in scop.get("assumptions", ()):
        yield say(Level.NOTE, "assumed", f"assumed: {reason}")


def _verdict(scop: Mapping[str, Any]) -> str:
    speedup = scop["speedup"]
    if scop.get("undecided"):
        who = "not optimized:" if scop["chosen"] == "original" else f"variant {scop['chosen']} was"
        return f"{who} {scop['verdict']}"
    if scop["chosen"] == "original":
        return "not optimized: nothing beat the original" if speedup is not None else "not optimized: no variant"
    if speedup is None:
        return f"the best ranked variant is {scop['chosen']}; nothing was timed"
    return f"variant {scop['chosen']} is {speedup:.2f}x faster than the original"


def _line(text: str) -> str:
    """A text as one line."""
    return " ".join(text.split())


def gcc(diagnostics: Iterable[Diagnostic]) -> str:
    """One line for each diagnostic, `file:line:column: level: message`, as gcc and clang write them. A hint becomes a
    note on a line of its own."""
    lines = []
    for d in diagnostics:
        where = f"{d.span}" if d.span else "polydl"
        lines.append(f"{where}: {d.level.value}: {_line(d.reason)}\n")
        if d.hint:
            lines.append(f"{where}: note: {_line(d.hint)}\n")
    return "".join(lines)


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(diagnostics: Sequence[Diagnostic], exit_code: int, command: Sequence[str]) -> dict[str, Any]:
    """A SARIF log of one run, as data to be written as JSON."""
    rules = list(dict.fromkeys(d.rule for d in diagnostics))
    paragraphs = refused()
    described = [{"id": r} | ({"help": _help(paragraphs[r])} if r in paragraphs else {}) for r in rules]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "polydl", "version": __version__, "rules": described}},
                "invocations": [
                    {"executionSuccessful": exit_code == 0, "exitCode": exit_code, "arguments": list(command)}
                ],
                "columnKind": "unicodeCodePoints",
                "results": [_result(d, rules.index(d.rule)) for d in diagnostics],
            }
        ],
    }


def _help(paragraph: str) -> dict[str, str]:
    return {"text": paragraph, "markdown": paragraph}


def _result(d: Diagnostic, rule: int) -> dict[str, Any]:
    text = d.reason if d.hint is None else f"{d.reason}\nhelp: {d.hint}"
    result: dict[str, Any] = {
        "ruleId": d.rule,
        "ruleIndex": rule,
        "level": d.level.value,
        "message": {"text": text},
    }
    if d.span is not None:
        region: dict[str, Any] = {"startLine": d.span.line, "startColumn": d.span.column}
        if d.span.text is not None:
            # The column after the last underlined character (3.30.8), at most the end of the line.
            region["endColumn"] = min(d.span.column + d.span.length, max(len(d.span.text), d.span.column) + 1)
            region["snippet"] = {"text": d.span.text}
        place = {"artifactLocation": {"uri": _uri(d.span.file)}, "region": region}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(file: str) -> str:
    """A relative reference, or a file: URI where the path is absolute (3.4.3, RFC 3986)."""
    escaped = quote(file.encode("utf-8", "surrogateescape"))
    if file.startswith("/"):
        return f"file://{escaped}"
    # `quote` escapes colons: one before the first slash would end the name of a scheme.
    return escaped.removeprefix("./")
