"""The output file: the input, byte for byte, with regions replaced and helpers put before their functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from polydl.lower.emit import Generated, protected
from polydl.lower.entry_checks import conditions, entry_checks, joined
from polydl.lower.region import original_text
from polydl.lower.row_pointers import on_rows
from polydl.model.scop import Scop, Source
from polydl.model.types import integer_text

_TEXT = """\
#ifndef POLYDL_TEXT
#define POLYDL_TEXT_(...) #__VA_ARGS__
#define POLYDL_TEXT(...) POLYDL_TEXT_(__VA_ARGS__) /* what a macro expands to */
#endif
"""

_HELPER = re.compile(r"static inline [\w ]+?(\w+)\(.*\Z")
"""A helper function of one line."""


def guarded(scop: Scop, replacement: str, newline: str, otherwise: str = "") -> str:
    """The replacement, and the original loops for values that the replacement was not made for; with `otherwise` that
    for other values of the function's parameters alone."""
    original = original_text(scop)
    macros = [f"{'' if defined else '!'}defined({name})" for name, defined in scop.conditions.items()]
    macros += [f"({g.name}) == {integer_text(g.value)}" for g in scop.guards if g.macro and g.plain]
    values = [f"({g.name}) == {integer_text(g.value)}" for g in scop.guards if g.macro and not g.plain]
    values += [f"!__builtin_strcmp(POLYDL_TEXT({use}), {text})" for use, text in scop.expansions]
    sizes = [f"{g.name} == {g.value}" for g in scop.guards if not g.macro]
    text = replacement
    for array in scop.arrays.values():
        if array.members is not None and re.search(rf"&{re.escape(array.spelled)}\b", replacement + otherwise):
            # Code that computes addresses, instead of naming members, knows how large an element is.
            subscripts = "[0]" * (array.subscripts - 1)
            values.append(f"sizeof({array.spelled}{subscripts}) == {array.members.bytes}")
    sizes += conditions(scop)
    if otherwise and sizes:
        text, sizes = _either(sizes, text, otherwise, newline), []
    if values or sizes:
        text = _either([*values, *sizes], text, original, newline)
    text = _with_views(scop, text, newline)
    if macros:
        text = f"#if {' && '.join(macros)}{newline}{text}{newline}#else{newline}{original}{newline}#endif"
    return text


def for_parameters(scop: Scop, code: Generated) -> Generated:
    """Code behind the conditions on the function's parameters alone, for where macros are what they were."""
    asked = replace(scop, guards=tuple(g for g in scop.guards if not g.macro), expansions=(), conditions={})
    return Generated((*entry_checks(scop)[1], *code.prologue), guarded(asked, code.region, "\n", code.otherwise))


def _with_views(scop: Scop, text: str, newline: str) -> str:
    """The code behind the declarations of the members of structures that it uses."""
    used = [view for view in scop.views.values() if re.search(rf"\b{re.escape(view.name)}\b", text)]
    if not used:
        return text
    pad = text[: len(text) - len(text.lstrip(" \t"))]
    lines = [f"{pad}  {view.declaration} = {view.value};" for view in used]
    shifted = [f"  {line}" if line.strip() and not line.startswith("#") else line for line in text.split(newline)]
    return newline.join([f"{pad}{{", *lines, *shifted, f"{pad}}}"])


def _either(asked: Sequence[str], text: str, otherwise: str, newline: str) -> str:
    pad = text[: len(text) - len(text.lstrip(" \t"))]
    braced = text[len(pad) :] if text.lstrip().startswith("{") else f"{{{newline}{text}{newline}{pad}}}"
    return f"{pad}if ({joined(asked, newline, pad)}) {braced} else {{{newline}{otherwise}{newline}{pad}}}"


def _region_with_pragmas(scop: Scop) -> tuple[int, int]:
    """Offsets of the region with the `#pragma scop` and `#pragma endscop` lines around it."""
    text = scop.source.text
    start, end = scop.region.start, scop.region.end
    before = text.rfind("\n", 0, max(start - 1, 0)) + 1
    if re.fullmatch(r"[ \t]*#[ \t]*pragma[ \t]+scop\b.*", text[before : max(start - 1, 0)].rstrip("\r")):
        start = before
    after = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+endscop\b[^\n]*").match(text, end)
    if after:
        end = after.end() - (1 if text[after.end() - 1] == "\r" else 0)
    return start, end


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    """The region from the beginning of its first line, where only white space stands before it."""
    line = text.rfind("\n", 0, start) + 1
    return (line, end) if not text[line:start].strip() else (start, end)


def splice(source: Source, replacements: Sequence[tuple[Scop, Generated | None]], header: str) -> str:
    """Text of the output file. `header` is the comment at its head; a scop without code of its own keeps its loops
    (and loses its pragmas, which other compilers would warn about)."""
    newline = "\r\n" if "\r\n" in source.text else "\n"
    text = source.text
    edits: list[tuple[int, int, str]] = []
    seen: dict[str, None] = {}
    helpers: dict[str, str] = {}
    for scop, generated in sorted(replacements, key=lambda r: r[0].region.start):
        start, end = _whole_lines(text, *_region_with_pragmas(scop))
        ending = newline if text[start:end].endswith("\n") else ""
        if generated is None:
            edits.append((start, end, original_text(scop) + ending))
            continue
        generated = _told_apart(generated, helpers)
        code, own = on_rows(scop, generated.region, original_text(scop), newline)
        asked = (*((_TEXT,) if scop.expansions else ()), *own, *entry_checks(scop)[1])
        prologue = dict.fromkeys((*asked, *generated.prologue, *generated.outside))
        fresh = [p for p in prologue if p not in seen]
        seen.update(prologue)
        if fresh:
            edits.append((scop.region.helpers, scop.region.helpers, protected(source, fresh) + "\n\n"))
        edits.append((start, end, guarded(scop, code, newline, generated.otherwise) + ending))
    # From the end; what is put in at one place stands there in the order of the regions.
    edits.sort(key=lambda edit: edit[:2])
    for start, end, replacement in reversed(edits):
        replacement = replacement.replace("\r\n", "\n").replace("\n", newline)
        text = _on_lines_of_its_own(text[:start], replacement, text[end:], newline)
    return header.replace("\n", newline) + text


def _told_apart(generated: Generated, helpers: dict[str, str]) -> Generated:
    """The code of a region with other names for helper functions that code of regions before has with other types: of
    `int` there and of `long` here. Adds to `helpers`, by name the text of each."""
    changed: dict[str, str] = {}
    for piece in generated.prologue:
        found = _HELPER.match(piece)
        if found is None:
            continue
        name, number = found.group(1), 1
        while helpers.setdefault(f"{name}_{number}" if number > 1 else name, piece) != piece:
            number += 1
        if number > 1:
            changed[name] = f"{name}_{number}"
    if not changed:
        return generated
    names = re.compile(rf"\b(?:{'|'.join(changed)})\b")

    def renamed(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.sub(lambda match: changed[match.group()], text) for text in texts)

    region, otherwise = renamed((generated.region, generated.otherwise))
    return replace(
        generated,
        prologue=renamed(generated.prologue),
        region=region,
        otherwise=otherwise,
        outside=renamed(generated.outside),
        prepare=renamed(generated.prepare),
    )


def _on_lines_of_its_own(before: str, piece: str, after: str, newline: str) -> str:
    """The three texts, with a line break where the piece would share a line with other code: directives need their
    line for themselves, and a macro of the line before must not run on."""
    opened = before[before.rfind("\n") + 1 :].strip()
    if opened:
        before = before.rstrip(" \t") + newline
    if not piece.endswith("\n") and after[: len(after) if (at := after.find("\n")) < 0 else at].strip():
        piece, after = piece + newline, after.lstrip(" \t")
    return before + piece + after
