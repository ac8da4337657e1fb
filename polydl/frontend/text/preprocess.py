"""`cc -E` over a C file with polydl's pragmas turned into markers, and the macros that were defined along the way."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pycparser_fake_libc

from polydl.base.errors import InputError, InputErrors, PolyDLError, Span, ToolchainError
from polydl.base.records import dataclass
from polydl.base.resources import header_flags
from polydl.frontend.text import limited
from polydl.frontend.text.pragmas import Pragma
from polydl.frontend.text.scan import Directive, SourceText

HEADERS = ("-isystem", str(Path(__file__).parent / "headers"), "-isystem", pycparser_fake_libc.directory)
"""Flags for system headers that a parser of C11 can read: polydl's own, which include those of pycparser."""
SYSTEM = (*HEADERS[1::2], "/usr/include", "/usr/lib")
"""Folders of headers that are the system's."""
HINTS = ("-D__builtin_expect(value,likely)=((long)(value))",)
"""Flags for what is said to the compiler about branches: it changes no value but the type."""
MARK = "__polydl_mark_{}__"
DONE = "__polydl_done_{}__"
BARE = "__polydl_bare_{}__"
"""Marks of a pragma with C text, of that text's end, and of a pragma without."""
MOST_EXPANDED = 8 << 20
"""Bytes that macros and headers may add."""
_GIVEN_UP = re.compile(
    r"out of memory|memory exhausted|Killed|bad_alloc|signal terminated program|LLVM ERROR|internal compiler error"
)
"""What compilers say when they run into a limit."""

_BARE = re.compile(r"__polydl_bare_(\d+)__.*")
_DEFINE = re.compile(r"^#define[ ]+(\w+)(\(([^)]*)\))?[ ]?(.*)$")
_DIAGNOSTIC = re.compile(r"^(.*?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$")
_ESCAPED = re.compile(r"\\U(000[0-9a-f]{5})")
"""How gcc spells letters outside of ASCII in names."""
LINE_MARKER = re.compile(r'^#\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro as `#define`d."""

    name: str
    parameters: tuple[str, ...] | None
    """None for an object-like macro."""
    body: str


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """What `cc -E -dD` gave."""

    text: str
    """Preprocessed C, `#define` lines blanked, each pragma of polydl's as a line `#pragma polydl INDEX`."""
    fragments: dict[int, str]
    """Pragma index -> its C text, macros expanded."""
    history: dict[str, list[tuple[int, Macro | None]]]
    """Macro name -> (offset in `text` from which it holds, definition or None for #undef), in order."""
    command: tuple[str, tuple[str, ...], str] = ("cc", (), "")
    """What it came from: the compiler, its -D -U -I, the folder of the file."""

    def macro(self, name: str, offset: int) -> Macro | None:
        """The macro called `name` as it stands at an offset of `text`; None when there is none."""
        entries = self.history.get(name)
        if not entries:
            return None
        at = bisect_right(entries, offset, key=lambda entry: entry[0])
        return entries[at - 1][1] if at else None


def with_markers(source: SourceText, pragmas: Sequence[Pragma]) -> str:
    """The text with each pragma replaced by a marker that the preprocessor leaves, its argument exposed to it.

    Line structure is kept: line n of the result is line n of the file. A `#line` says in its name of a file on which
    line it stands (`_physical` reads that).
    """
    text = source.text
    parts: list[str] = []
    position = 0
    replaced: list[tuple[int, Pragma | Directive]] = [(pragma.start, pragma) for pragma in pragmas]
    replaced += [(d.start, d) for d in source.directives if _LINE.match(text, d.tokens[0].offset)]
    for start, pragma in sorted(replaced, key=lambda pair: pair[0]):
        parts.append(text[position:start])
        if isinstance(pragma, Directive):
            number = next(token.text for token in pragma.tokens if token.kind == "number")
            newlines = text.count("\n", start, pragma.end)
            after = pragma.tokens[0].line + newlines
            line_ends = "\\\n" * (newlines - 1) + "\n" * (newlines > 0)
            parts.append(f'#line {number} "{_RENUMBERED}:{number}:{after}"{line_ends}')
            position = pragma.end
            continue
        first, last = pragma.body
        if last > first:
            before = "\\\n" * text.count("\n", pragma.start, first)
            after = text[last : pragma.end].count("\n")
            tail = "\\\n" * (after - 1) + "\n" if after else ""
            parts.append(f"{before}{MARK.format(pragma.index)} {text[first:last]} {DONE.format(pragma.index)}{tail}")
        else:
            newlines = text.count("\n", pragma.start, pragma.end)
            parts.append(BARE.format(pragma.index) + "\\\n" * (newlines - 1) + ("\n" if newlines else ""))
        position = pragma.end
    parts.append(text[position:])
    return "".join(parts)


def preprocess(
    source: SourceText, pragmas: Sequence[Pragma], flags: Sequence[str], folder: str, cc: str
) -> Preprocessed:
    """Run `cc -E -dD` with fake system headers first.

    `folder` is where `#include "…"` looks. Raises ToolchainError without a compiler, InputErrors when it rejects
    the file.
    """
    _check_includes(source, flags, folder)
    quoted = source.path.replace("\\", "\\\\").replace('"', '\\"')
    command = [cc, "-E", "-dD", "-x", "c", *flags, *HINTS, "-iquote", folder or ".", *HEADERS, *header_flags()]
    marked = f'# 1 "{quoted}"\n{with_markers(source, pragmas)}'
    most = MOST_EXPANDED + 2 * len(source.text)
    try:
        done = limited.run([*command, "-"], marked.encode("utf-8", "surrogateescape"), most)
    except FileNotFoundError as error:
        raise ToolchainError(
            f"the C compiler '{cc}' was not found", hint="install gcc or clang, or name a compiler with --cc"
        ) from error
    except OSError as error:
        raise ToolchainError(f"the C compiler '{cc}' cannot be run: {error.strerror}", hint="check --cc") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"'{cc} -E' took more than {limited.WALL_SECONDS} s on {source.path}") from error
    if done.too_long:
        reason = f"preprocessed, this is longer than {most >> 20} MiB"
        raise InputErrors([InputError(reason, source.line_span(1), "look for macros that expand to too much")])
    if done.too_slow:
        reason = f"the preprocessor took {limited.CPU_SECONDS} s of processor time and was stopped"
        hint = "look for macros that expand without end; a faster machine may come through"
        raise InputErrors([InputError(reason, source.line_span(1), hint)])
    if done.code != 0:
        raise _rejected(source, done.messages.decode("utf-8", "replace"), cc)
    text = done.output.decode("utf-8", "surrogateescape")
    if not LINE_MARKER.search(text):
        raise ToolchainError(f"'{cc} -E' printed no C: it is no C compiler", hint="check --cc")
    text = _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), _physical(text, quoted))
    return replace(_digest(text), command=(cc, tuple(flags), folder))


_LINE = re.compile(r"#[ \t]*(?:line[ \t]+)?0*[1-9]\d{0,8}[ \t]*(?:\"[^\"\n]*\"[ \t\d]*)?(?=\r?\n|\Z)")
"""A directive that says where the next line comes from: written out, and not made by macros."""
_RENUMBERED = "polydl:line"
_RENUMBERED_MARKER = re.compile(rf'^# (\d+) "{_RENUMBERED}:(\d+):(\d+)"', re.MULTILINE)


def _physical(text: str, name: str) -> str:
    """Preprocessed text whose line markers say lines of the file, whatever its `#line`s say."""
    return _RENUMBERED_MARKER.sub(
        lambda match: f'# {int(match.group(1)) - int(match.group(2)) + int(match.group(3))} "{name}"', text
    )


_INCLUDE = re.compile(r"#[ \t]*(?:include|include_next|embed)[ \t]*([<\"])([^>\"\n]+)[>\"]")


def _check_includes(source: SourceText, flags: Sequence[str], folder: str) -> None:
    """Raise InputErrors for an include of something that is no file: reading a device or a pipe may never end."""
    folders = [folder or ".", *(flag[2:] for flag in flags if flag.startswith("-I"))]
    for directive in source.directives:
        match = _INCLUDE.match(source.text, directive.tokens[0].offset)
        if match is None:
            continue
        for place in folders:
            path = Path(place) / match.group(2)
            if path.exists() and not path.is_file():
                kind = "a folder" if path.is_dir() else "a device or a pipe"
                reason = f"'{match.group(2)}' is {kind}, not a header"
                raise InputErrors(
                    [InputError(reason, source.span(directive.tokens[0], len(match.group())), "check it")]
                )


def _rejected(source: SourceText, messages: str, cc: str) -> PolyDLError:
    """The compiler's own complaints as input errors."""
    errors: list[InputError] = []
    for line in messages.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match:
            file, number, column, reason = match.groups()
            at = int(number)
            text = source.line_text(at) if file == source.path else None
            start = int(column or 1)
            if text is not None:
                start = min(start, max(len(text), 1))  # what never ends, ends behind the last character
            errors.append(
                InputError(
                    f"the preprocessor says: {reason}",
                    Span(file, at, start, 1, text),
                    "folders of headers are given with -I, macros with -D",
                    topic="reading-c",
                )
            )
    # What `#line 0` does to the compiler's messages, with a name of its own or without.
    unplaced = re.search(r"^(.*?): (?:fatal )?error: (.*)$", messages, re.MULTILINE)
    # Or a macro's arguments that go on to the end of the file, which gcc finds nowhere: `cc1: error: …`.
    endless = unplaced is not None and "unterminated argument list" in unplaced.group(2)
    if (
        not errors
        and unplaced
        and (endless or unplaced.group(1) == source.path or f'"{unplaced.group(1)}"' in source.text)
    ):
        reason = f"the preprocessor says: {unplaced.group(2)}"
        errors.append(InputError(reason, source.line_span(1), "check that the file compiles", topic="reading-c"))
    if errors:
        return InputErrors(errors)
    if _GIVEN_UP.search(messages):
        reason = f"the preprocessor needs more than {limited.MEMORY >> 30} GiB for this"
        return InputErrors([InputError(reason, source.line_span(1), "look for macros that expand to too much")])
    return ToolchainError(f"'{cc} -E' failed: {messages.strip() or 'no message'}", hint="check --cc")


def _digest(raw: str) -> Preprocessed:
    """Take `#define`s, `#undef`s and fragments out of the compiler's output, keeping its line structure."""
    fragments: dict[int, str] = {}
    history: dict[str, list[tuple[int, Macro | None]]] = {}
    out: list[str] = []
    length = 0
    pending: int | None = None
    collected: list[str] = []
    for line in raw.split("\n"):
        output_line = line
        if line.startswith('# 0 "<built-in>"'):
            output_line = ""  # gcc marks each of its own macros, hundreds; no C stands there
        elif line.startswith("#define "):
            match = _DEFINE.match(line)
            if match:
                name, parenthesised, parameters, body = match.groups()
                split = tuple(p.strip() for p in parameters.split(",")) if parenthesised else None
                history.setdefault(name, []).append((length, Macro(name, split, body)))
            output_line = ""
        elif line.startswith("#undef "):
            history.setdefault(line[7:].strip(), []).append((length, None))
            output_line = ""
        elif pending is None and "__polydl_bare_" in line:
            output_line = _BARE.sub(r"#pragma polydl \1", line)
        elif pending is not None or "__polydl_mark_" in line:
            output_line = ""
            if pending is None:
                head, _, line = line.partition("__polydl_mark_")
                number, _, line = line.partition("__")
                pending = int(number)
                output_line = f"{head}#pragma polydl {pending}"
                collected = []
            before, done, _ = line.partition(DONE.format(pending))
            collected.append(before)
            if done:
                fragments[pending] = "\n".join(collected)
                pending = None
        out.append(output_line)
        length += len(output_line) + 1
    return Preprocessed("\n".join(out), fragments, history)
