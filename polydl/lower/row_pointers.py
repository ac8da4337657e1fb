"""Code for arrays of pointers to rows (`float **A`): it runs on arrays of two dimensions.

float (*polydl_rows_A)[64] = the rows, where they lie one behind the other
if there are none, and it pays: a copy of them
if (polydl_rows_A) { { float (*A)[64] = polydl_rows_A; <the code> } <the copy back> } else { <the original loops> }
"""

from __future__ import annotations

from collections.abc import Sequence

from polydl.kernels.microkernel import environment
from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.emit import helper_texts, names_for
from polydl.model.counting import count
from polydl.model.isl.trees import parametric_value
from polydl.model.scop import Array, Scop

_PAYS = 16
"""Executions of statements per element from which a copy of an array pays: moving an element there and back is four
accesses of memory, and may take a quarter of the time at most."""
_STEP = "  "


def on_rows(scop: Scop, text: str, original: str, newline: str) -> tuple[str, tuple[str, ...]]:
    """The code where arrays of pointers to rows are arrays of two dimensions, with the original loops for rows that
    cannot be made that; and the file-scope C that it needs. All extents have to be known."""
    arrays = [array for array in scop.arrays.values() if array.rows is not None]
    if not arrays:
        return text, ()
    names = names_for(scop)
    helpers, prefix = Helpers(names.prefix, set()), names.prefix
    row = f"{prefix}row"
    pad = text[: len(text) - len(text.lstrip(" \t"))]
    before, inside, back, free = [], [], [], []
    written = {access.array for s in scop.statements for access in s.accesses if access.write}
    for array in arrays:
        assert array.rows is not None
        rows, columns = array.shape
        const = "const " if array.const else ""
        made, copy = f"{prefix}rows_{array.name}", f"{prefix}copy_{array.name}"
        given = f"{array.name}, {array.rows.first}, {rows}, (long)sizeof *{made}"
        kind = f"{array.element.c} (*{{}})[{columns}]"
        before.append(f"{kind.format(made)} = ({kind.format('')}){prefix}pointed_block({given});")
        if _copied(scop, array):
            assert array.rows.lengths is not None
            length = expression(FromIsl(helpers, lambda _: row)(parametric_value(array.rows.lengths)))
            each = f"for (long {row} = {array.rows.first}; {row} < {rows}; {row}++)"
            size = f"(unsigned long)({length}) * sizeof **{made}"
            apart = f" && {prefix}pointed_apart({given})" if array.name in written else ""
            memory = f"__builtin_malloc({rows} * sizeof *{made})"
            before.append(f"void *{copy} = !{made}{apart} ? {memory} : 0;")
            before.append(f"if ({copy}) {{")
            before.append(f"{_STEP}{made} = ({kind.format('')}){copy};")
            before.append(f"{_STEP}{each} __builtin_memcpy({made}[{row}], {array.name}[{row}], {size});")
            before.append("}")
            if array.name in written:
                back.append(f"if ({copy})")
                back.append(f"{_STEP}{each} __builtin_memcpy({array.name}[{row}], {made}[{row}], {size});")
            free.append(f"__builtin_free({copy});")
        restrict = "__restrict__ " if array.restrict else ""
        inside.append(f"{const}{kind.format(restrict + array.name)} = {made};")
    there = " && ".join(f"{prefix}rows_{array.name}" for array in arrays)
    opening = ["{", *_deeper(before), f"{_STEP}if ({there}) {{", f"{_STEP * 2}{{", *_deeper(inside, 3)]
    between = [f"{_STEP * 2}}}", *_deeper(back, 2), f"{_STEP}}} else {{"]
    closing = [f"{_STEP}}}", *_deeper(free), "}"]
    code = [_STEP * 3 + line if line.strip() and not line.startswith("#") else line for line in text.split(newline)]
    first, middle, last = ([pad + line for line in part] for part in (opening, between, closing))
    template = environment().get_template("pointed_rows.c.j2").render(p=prefix)
    whole = newline.join([*first, *code, *middle, original, *last])
    return whole, (template, *helper_texts(helpers, names))


def _deeper(lines: Sequence[str], by: int = 1) -> list[str]:
    return [_STEP * by + line for line in lines]


def _copied(scop: Scop, array: Array) -> bool:
    """Whether a copy of an array may be made, and pays."""
    assert array.rows is not None
    if array.rows.lengths is None or array.layout.size is None:
        return False
    users = [s for s in scop.statements if any(access.array == array.name for access in s.accesses)]
    return sum(count(s.domain).lower for s in users) >= _PAYS * array.layout.size
