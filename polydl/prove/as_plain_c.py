"""Turns a generated file into C that pycparser reads: vectors become scalars, OpenMP's pragmas become calls."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from itertools import product
from typing import Any

from pycparser import c_ast

from polydl.base.errors import PolyDLError
from polydl.base.records import dataclass
from polydl.frontend.text.parse import parse
from polydl.frontend.text.pragmas import find_pragmas
from polydl.frontend.text.preprocess import preprocess
from polydl.frontend.text.scan import SourceText
from polydl.kernels.microkernel import MOST_CASES
from polydl.kernels.vector_text import COMPARISONS
from polydl.model.scop import BlackBox, Scop
from polydl.model.types import BOOL, I32
from polydl.prove.integers import Unreadable
from polydl.prove.stated_sums import StatedSum, sharing, stated_sums
from polydl.target.isa import ISAS, ROW_TYPES, WHOLE_TYPES, Isa, lanes_name, narrow_lanes
from polydl.target.products import IN_WORDS

_ONE_LANE = """\
#include <stddef.h>
#include <stdint.h>
#define POLYDL_VECTORS
#define POLYDL_VECTORS_F32
#define POLYDL_VECTORS_F64
#define POLYDL_VECTORS_I32
#define POLYDL_ROWS_F32
#define POLYDL_ROWS_F64
#define POLYDL_ALTERNATE_F32
#define POLYDL_ALTERNATE_F64
#define POLYDL_PACK_F32
#define POLYDL_PACK_F64
#define POLYDL_MATH_F32
#define POLYDL_MATH_F64
#define POLYDL_NARROW_F32
#define POLYDL_STREAM_END
#define POLYDL_INLINE static inline
#define POLYDL_OUTLINE static
#define POLYDL_UNROLL
#define POLYDL_UNROLL_2
#define POLYDL_UNROLL_4
typedef float polydl_f32;
typedef double polydl_f64;
typedef int polydl_i32;
typedef int polydl_i32_anywhere;
typedef int polydl_i32_part;
typedef int polydl_f32_bits;
typedef int polydl_f32_part;
typedef int polydl_f64_part;
"""
"""In place of the vector prologues, whose include guards it sets."""

MEANING = "_meaning"
"""Behind a function's name: that of the function which does what is stated above it (kernels.innermost.stated)."""

_EACH = "#define POLYDL_EACH_1(X) X(1)\n" + "".join(
    f"#define POLYDL_EACH_{n}(X) POLYDL_EACH_{n - 1}(X) X({n})\n" for n in range(2, MOST_CASES + 1)
)

_OMP = re.compile(r"^([ \t]*)#pragma omp ([^\n]*)$", re.MULTILINE)
_KERNEL = re.compile(r"/\* (C\[i\*[^\n]*)\n.*?\b(polydl\d*_mk_\w+)_finish\(", re.DOTALL)
_MEANING = re.compile(r"^/\* does: ([^\n]*) \*/\r?\n(static[^\n]*? )(polydl\d*_\w+)(\([^\n]*\))\r?\n", re.MULTILINE)
_PACK = re.compile(
    r"/\* ((?:packed|copied)\[w / \d+\][^\n]*?) \*/.*?\bstatic[^\n]*? (polydl\d*_pack_\w+)\(([^\n]*)\)\n\{", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A generated file."""

    body: Any
    """pycparser's Compound: the function that holds the region."""
    functions: Mapping[str, Any]
    """The other functions that could be parsed."""
    kernels: Mapping[str, str]
    """Per generated microkernel the comment above it, which states what it computes."""
    packs: Mapping[str, tuple[str, tuple[str, ...]]]
    """Per generated packing function its comment and the names of its parameters."""
    sums: Mapping[str, StatedSum] = field(default_factory=dict)
    """Per generated function that adds up a segment what it adds up."""
    shares: frozenset[str] = frozenset()
    """Generated functions that share out rows."""


def read(text: str, scop: Scop, cc: str) -> Parsed:
    """Parse a generated file with the front end's preprocessor and parser, with vectors of one lane. Raises
    Unreadable."""
    functions = _functions(text, scop, cc, None, True)
    if scop.function not in functions:
        raise Unreadable(f"the function {scop.function} cannot be parsed")
    kernels: dict[str, str] = {}
    for piece in text.split("\n/* C[")[1:]:
        found = _KERNEL.match("/* C[" + piece)
        if found:
            kernels[found.group(2)] = found.group(1)
    packs: dict[str, tuple[str, tuple[str, ...]]] = {}
    for piece in re.split(r"\n(?=/\* (?:packed|copied)\[)", text)[1:]:
        found = _PACK.match(piece)
        if found:
            names = tuple(re.findall(r"(\w+)\s*(?:,|$)", found.group(3)))
            packs[found.group(2)] = (found.group(1), names)
    return Parsed(functions[scop.function].body, functions, kernels, packs, stated_sums(text), sharing(text))


def helpers(text: str, scop: Scop, cc: str, isa: Isa, names: Iterable[str]) -> Mapping[str, Any]:
    """The functions of a generated file with these names, and those that they call, for an instruction set. Raises
    Unreadable."""
    return _functions(text, scop, cc, isa, frozenset(one for name in names for one in (name, f"{name}{MEANING}")))


def _functions(text: str, scop: Scop, cc: str, isa: Isa | None, bodies: bool | Collection[str]) -> Mapping[str, Any]:
    kept = [own for s in scop.statements if isinstance(s.body, BlackBox) for own in (s.body.text, s.body.lanes) if own]
    for own in dict.fromkeys(kept) if isa is None else ():
        text += f"\nstatic void {kept_name(own)}(void)\n{{\n{own}\n}}\n"
    told = with_meanings(text).replace("#ifdef _OPENMP\n", "#if 1\n")
    code = head(_prefix(text), isa) + _OMP.sub(r'\1polydl_omp("\2");', told)
    flags = scop.source.preprocessor_flags
    source = SourceText(str(scop.source.path), code)
    pragmas, _ = find_pragmas(source)
    try:
        unit = parse(source, pragmas, preprocess(source, pragmas, flags, str(scop.source.path.parent), cc), bodies)
    except PolyDLError as error:
        raise Unreadable(f"the output cannot be parsed: {error}") from error
    return {e.decl.name: e for e in unit.externals if isinstance(e, c_ast.FuncDef)}


def kept_name(text: str) -> str:
    """The function among those that are read (`read`) whose body is the text of a statement that is kept as it is
    written."""
    return f"polydl_kept_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def with_meanings(text: str) -> str:
    """The text with a function in place of each comment that states in C what the one below it does."""
    return _MEANING.sub(rf"\2\3{MEANING}\4 {{ \1 }}\n\2\3\4\n", text)


def head(prefix: str, isa: Isa | None) -> str:
    """What stands in place of the vector prologues: macros and types with which pycparser can read the rest."""
    found = _ONE_LANE + _EACH + (f"#define {isa.macro} 1\n" if isa is not None else "")
    found += "".join(
        f"#define POLYDL_{call.upper()}\n" for call in (*(p.call for p in IN_WORDS.values()), "TILES", "MMLAS")
    )
    for name, element in (*((lanes_name(row), row) for row in ROW_TYPES), (I32.name, I32)):
        found += f"#define POLYDL_TRANSPOSE_{name.upper()}\n"
        found += f"#define POLYDL_{name.upper()}_LANES {1 if isa is None else isa.lanes(element)}\n"
    for name, (lanes, element) in narrow_lanes(isa or ISAS[-1]).items():
        found += f"#define POLYDL_VECTORS_{name.upper()}\ntypedef {element.c} polydl_{name};\n"
        found += f"typedef int polydl_{name}_part;\n#define POLYDL_{name.upper()}_LANES {1 if isa is None else lanes}\n"
    for element in WHOLE_TYPES:
        name = lanes_name(element)
        found += f"#define POLYDL_{name.upper()}\ntypedef {element.c} polydl_{name};\ntypedef int polydl_{name}_part;\n"
    for of, among in product((BOOL, *WHOLE_TYPES), ROW_TYPES):
        found += f"#define POLYDL_WIDENED_{lanes_name(among).upper()}_{of.name.upper()}\n"
        for test in COMPARISONS.values():
            found += f"#define POLYDL_MASK_{lanes_name(among).upper()}_{test.upper()}_{of.name.upper()}\n"
    return re.sub(r"\bpolydl_", prefix, re.sub(r"\bPOLYDL_", prefix.upper(), found))


def _prefix(text: str) -> str:
    """The stem of the generated names: `polydl_`, or `polydl1_` where the source has names with the former."""
    found = re.search(r"#ifndef (POLYDL\d*_)VECTORS\b", text)
    return found.group(1).lower() if found else "polydl_"
