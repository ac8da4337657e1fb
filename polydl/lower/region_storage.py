"""Declarations in front of a region's code: arrays that only the region knows, and what keeps compilers silent."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from polydl.dependences.scalars import PRIVATE_BYTES
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression, lines
from polydl.lower.ctree import Binary, Block, Cast, Expr, If, Int, Node, Raw, Scope, mentioned
from polydl.lower.region import original_text
from polydl.model.isl.trees import parametric_value
from polydl.model.scop import Array, Scop, Storage
from polydl.rewrite.contract import PREFIX


def own_rows(scop: Scop, code: list[Node], helpers: Helpers, prologue: list[str]) -> list[Node]:
    """The code with arrays of which threads have their own: declared anew, for the function's may be a pointer to one;
    where it shows at run time how long they are, behind a question, and the original loops. The latter holds of arrays
    that rewrites made, too."""
    text = "\n".join(lines(Scope(tuple(code)), 0))
    own = ", ".join(re.findall(r"^ *#pragma omp .* private\((.*?)\)", text, re.MULTILINE)).split(", ")
    arrays = [a for a in scop.arrays.values() if a.name in own and not a.is_scalar and a.storage is Storage.LOCAL]
    code = [*(Raw((f"{array.declaration};",)) for array in arrays), *code]
    short: Expr | None = None
    for array in (a for a in (*arrays, *filter(_is_sized, scop.arrays.values())) if a.layout.size is None):
        size = Binary("*", elements(array, helpers, scop.unsigned), Int(array.element.bytes))
        one = Binary("<=", size, Int(PRIVATE_BYTES))
        short = one if short is None else Binary("&&", short, one)
    if short is None:
        return code
    prologue.append("#include <stddef.h>\n")
    return [If(short, Block(tuple(code)), Raw((original_text(scop),), indented=False))]


def elements(array: Array, helpers: Helpers, unsigned: Collection[str]) -> Expr:
    """C: how many elements an array has."""
    c = FromIsl(helpers, lambda name: name, unsigned)
    first: Expr | None = None
    for extent in array.extents:
        assert extent is not None, "a box has ends"
        factor = c(parametric_value(extent))
        first = Cast("size_t", factor) if first is None else Binary("*", first, factor)
    assert first is not None, "a scalar has a size"
    return first


def storage(scop: Scop, buffers: Collection[str], helpers: Helpers) -> list[Node]:
    """The declarations of arrays that only the region knows, but for those that are in memory of its own."""
    own = [a for a in scop.arrays.values() if a.storage is Storage.REGION and a.name not in buffers]
    return [Raw((f"{a.declaration}{_sizes(a, helpers, scop.unsigned) if _is_sized(a) else ''};",)) for a in own]


def _is_sized(array: Array) -> bool:
    """Whether a rewrite made an array of the region, and parameters say how large it is."""
    return array.storage is Storage.REGION and array.span is None and array.layout.size is None


def _sizes(array: Array, helpers: Helpers, unsigned: Collection[str]) -> str:
    """C: the extents of an array in its declaration."""
    c = FromIsl(helpers, lambda name: name, unsigned)
    extents = [expression(c(parametric_value(extent))) for extent in array.extents if extent is not None]
    return "".join(f"[{extent}]" for extent in extents)


def unused_storage(scop: Scop, code: Sequence[Node], buffers: Collection[str] = ()) -> list[Node]:
    """Code that keeps compilers silent about what lives in registers of vector functions: contracted arrays, of which
    an argument may be left, and scalars that nothing in `code` mentions. `buffers`: the arrays that are in memory of
    its own, by other names."""
    inner = [a for a in scop.arrays.values() if a.storage is Storage.REGION and a.name not in buffers]
    contracted = [a.name for a in inner if a.name.startswith(PREFIX)]
    named = [n for name in contracted for n in (name, name.removeprefix(PREFIX)) if n in scop.arrays]
    scalars = [a.name for a in inner if a.is_scalar]
    used = set[str]().union(*map(mentioned, code))
    left = [n for n in scalars if n not in named and n not in used]
    return [_used([name]) for name in (*named, *left)]


def _used(names: Sequence[str]) -> Node:
    return Raw((f"{', '.join(f'(void){name}' for name in names)};",))


def declarations(scop: Scop) -> list[Node]:
    """Code that keeps compilers silent about variables of the function that only the original loops use."""
    unused = [text.partition("=")[0].split()[-1].strip("*") for text in scop.region.declared_outside]
    return [_used(unused)] if unused else []
