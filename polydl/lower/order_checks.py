"""What the output asks of arrays whose elements part segments: that they never decrease (`model.scop.Ordered`)."""

from __future__ import annotations

from polydl.lower.cexpr import FromIsl, Helpers
from polydl.lower.cprint import expression
from polydl.lower.emit import helper_texts, names_for
from polydl.model import isl
from polydl.model.isl.trees import parametric_value
from polydl.model.scop import Scop

_TEXT = """\
#ifndef {guard}
#define {guard}
/* Whether elements first to last + 1 never decrease. */
static inline __attribute__((unused)) int {prefix}ordered_{type}(const {c} *array, long first, long last)
{{
    int found = 0;
    for (long row = first; row <= last; row++) found |= array[row] > array[row + 1];
    return !found;
}}
#endif
"""


def order_checks(scop: Scop) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Conditions in C, and the file-scope C that they need; to be asked where the parameters have values for which the
    program runs."""
    if not scop.ordered:
        return (), ()
    names = names_for(scop)
    helpers = Helpers(names.prefix, set())
    c = FromIsl(helpers, lambda name: name, scop.unsigned)
    asked, texts = [], []
    for one in scop.ordered:
        some = one.rows.params()
        low, high = (
            expression(c(parametric_value(bound.coalesce().gist_params(some))))
            for bound in isl.symbolic_bounds(one.rows, 0)
        )
        array = scop.arrays[one.array]
        name = f"{names.prefix}ordered_{array.element.name}"
        asked.append(f"{name}({array.name}, {low}, {high})")
        texts.append(_TEXT.format(guard=name.upper(), prefix=names.prefix, type=array.element.name, c=array.element.c))
    return tuple(asked), tuple(dict.fromkeys([*helper_texts(helpers, names), *texts]))
