"""Vector forms of <math.h>: glibc has them in libmvec, but gcc takes them in `omp simd` loops only where a declaration
says that they exist, and <math.h> says so under -ffast-math alone. Nor does it take the instruction for square roots,
or compute one arm of a choice in all lanes, where the function may set errno: nothing in a region reads it, and a file
that speaks of errno anywhere keeps its functions as they are.

Source: the vector ABI of glibc's libmvec (sysdeps/x86/fpu/bits/math-vector.h); its functions are at most 4 units in the
last place off and give special values to the scalar ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from polydl.lower.cprint import lines
from polydl.lower.ctree import Block, For, Node, Pragma, Raw, Scope, children
from polydl.model.functions import Function, function_of
from polydl.model.types import F32, F64

_ERRNO = re.compile(r"\berrno\b")
_CALL = re.compile(r"\b(?!if\b|for\b|while\b|switch\b|sizeof\b|return\b)([a-z]\w*)\s*\(")
_SIMD = re.compile(r"omp (parallel for )?simd\b")


def vector_declarations(code: Sequence[Node], source: str) -> str:
    """C text that declares vector forms of the functions that the code calls in loops marked as `simd`; empty where
    none are. `source`: the file.

    The text means nothing to other compilers and libraries, nor to C++, whose <cmath> has other declarations.
    """
    if _ERRNO.search(source):
        return ""
    found = sorted({name for node in code for loop in _vector_loops(node) for name in vector_calls(loop, source)})
    text: list[str] = []
    rows = {name: row for name in found if (row := _in_vectors(name)) is not None}
    if roots := [name for name, row in rows.items() if row.libmvec is None]:
        text += ["/* errno is not read where these are called. */", "#if defined(__GNUC__) && !defined(__cplusplus)"]
        text += [*(_declaration(name, "__const__") for name in roots), "#endif"]
    if forms := {name: row.libmvec for name, row in rows.items() if row.libmvec is not None}:
        text += [
            "/* gcc takes glibc's vector forms of these where they are declared so; errno is not read after them. */"
        ]
        text += ["#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__cplusplus)"]
        for version in sorted(set(forms.values())):
            text.append(f"#if __GLIBC_PREREQ({version[0]}, {version[1]})")
            since = [name for name, own in forms.items() if own == version]
            text += [*(_declaration(name, '__simd__("notinbranch"), __const__') for name in since), "#endif"]
        text.append("#endif")
    return "\n".join(text)


def vector_calls(node: Node, source: str) -> set[str]:
    """The functions with vector forms, and square roots, that code calls, by itself or in functions of the file, which
    compilers expand in place: where one of those is called, each that the file calls anywhere counts."""
    called = set(_CALL.findall("\n".join(lines(node, 0))))
    if any(_defines(source, name) for name in called):
        called |= set(_CALL.findall(source))
    return {name for name in called if _in_vectors(name) is not None and not _defines(source, name)}


def is_straight(node: Node) -> bool:
    """Whether code has no loops."""
    if isinstance(node, For):
        return False
    if isinstance(node, Raw):
        return not re.search(r"\b(for|while|goto)\b", "\n".join(node.lines))
    return all(is_straight(child) for child in children(node))


def _declaration(name: str, attribute: str) -> str:
    row = function_of(name)
    assert row is not None
    element = F64 if name == row.of(F64) else F32
    arguments = ", ".join([element.c] * row.arity)
    return f"__attribute__(({attribute})) extern {element} {name}({arguments});"


def _in_vectors(name: str) -> Function | None:
    """The row of a function that libmvec has, or that is an instruction behind which errno may be set: a root."""
    row = function_of(name)
    return row if row is not None and (row.libmvec is not None or row.sets_errno) else None


def _defines(source: str, name: str) -> bool:
    """Whether a file has a function or macro of its own with this name."""
    arguments = r"\((?:[^;{}()]|\([^()]*\))*\)"
    own: Mapping[str, str] = {"function": rf"\b{name}\s*{arguments}\s*\{{", "macro": rf"#\s*define\s+{name}\b"}
    return any(re.search(pattern, source) for pattern in own.values())


def _vector_loops(node: Node) -> Iterator[Node]:
    """The loops that are marked so."""
    parts = node.parts if isinstance(node, Block | Scope) else ()
    for before, loop in pairwise(parts):
        if isinstance(before, Pragma) and _SIMD.match(before.text):
            yield loop
    for child in children(node):
        yield from _vector_loops(child)
