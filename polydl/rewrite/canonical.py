"""The one place that says which rewrites run before the search, and in which order: from the program as it was read to
the program that is searched.

    dead code ─▶ a scalar for each value ─▶ fma() as sums ─▶ sums in place ─▶ factors ─┬─▶ tiles joined ─▶ sums of
                                         the names and loops are still those of the file ┘         products apart ─┐
    index sets cut ◀─ ends of loops cut ◀─ borders ◀─ loops upwards ◀─ unrolled loops rolled up ◀──────────────────┘

Whoever ranks, scores, exports, collects, explains, proves or fuses calls `canonical`, so that loop strings, recipes,
schedule files and measurements mean the same statements everywhere. Statements that are taken apart or put together get
new names (`S1` becomes `S1t0` and `S1t1`; `S1` and `S2` become `S1r`), and those that lose loops (`S1u`); until then
names and loops are those of the file, of which some statements may be gone. Before sums are made in place, zero points
come out of those of integers; around sums in blocks of registers, temporaries become part of what they are used for
(`materialise`), and at last scalars that are used on both sides of such a sum are parted there (`around_products`).
Before them, values of functions
that iterations share are computed once, into tables (`tabulate`); behind them loops over columns go innermost
(`columns`). In front, iterations of loops get arrays of their own in place of one that they all use for a while
(`own_copies`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.dependences.analysis import Dependence, dependences
from polydl.equations.step import Step, applied
from polydl.model import isl
from polydl.model.isl import quota
from polydl.model.scop import Scop, Statement
from polydl.rewrite.around_products import around_products
from polydl.rewrite.borders import apart, borders, borders_stay
from polydl.rewrite.columns import columns
from polydl.rewrite.dead import LeftOut, without_dead
from polydl.rewrite.detiling import strips, upwards
from polydl.rewrite.div_mod_splitting import digits
from polydl.rewrite.expressions import multiply_adds, returned
from polydl.rewrite.first_iterations import first_iterations
from polydl.rewrite.interiors import interiors, wide_enough
from polydl.rewrite.joint_blocks import joint_blocks
from polydl.rewrite.linear import linear_sums
from polydl.rewrite.materialise import (
    expand,
    forward,
    in_place,
    results_of_blocks,
    results_of_sums,
    values_of_extremes,
)
from polydl.rewrite.own_copies import own_copies
from polydl.rewrite.partial_results import partial
from polydl.rewrite.reduction_fission import reduction_fission
from polydl.rewrite.reroll import reroll
from polydl.rewrite.row_buffers import row_buffers
from polydl.rewrite.scatter_to_gather import gathered
from polydl.rewrite.scattered_sums import beside
from polydl.rewrite.split import split
from polydl.rewrite.storage import split_live_ranges
from polydl.rewrite.sums_in_lanes import sums_of_read_bounds
from polydl.rewrite.tabulate import tabulated
from polydl.rewrite.triangle_padding import staircase
from polydl.rewrite.widen import widen
from polydl.rewrite.zero_points import factors_in_place, zero_points, zero_points_stay


class Form(Enum):
    """How far a program is rewritten."""

    WRITTEN = "in the file's names"
    """Every statement has the name and the loops of one of the file."""
    SEARCHED = "as it is searched"


@dataclass(frozen=True, slots=True)
class Canonical:
    """A program in the form in which it is searched, and how that came about."""

    read: Scop
    """As the front end made it."""
    scop: Scop
    """After all steps; `read` itself where there are none."""
    dependences: tuple[Dependence, ...]
    """Of `scop`, without RAR."""
    steps: tuple[Step, ...]
    """What was rewritten, in order; each has passed its check, and its text says to people what it did."""
    refused: tuple[str, ...]
    """What was not rewritten because it is not shown to compute the same, for people."""

    @property
    def dead(self) -> tuple[Step, ...]:
        """Those of the steps that leave out what nobody reads."""
        return tuple(step for step in self.steps if isinstance(step.rewrite, LeftOut))

    @property
    def live(self) -> Scop:
        """Without dead code, and otherwise as it was read: every statement is one of the file."""
        return applied(self.read, self.dead)


def canonical(
    scop: Scop, *, reassociate: bool = True, form: Form = Form.SEARCHED, names: Collection[str] | None = None
) -> Canonical:
    """The program in the form in which it is searched, or in an earlier form.

    `names` are of statements, in a text that a user wrote (a loop string, a schedule file): the form is then the one
    that has statements of these names, `SEARCHED` before `WRITTEN`; where there are none, as in a loop string without
    the name of a nest, the loops meant are those of the file. `reassociate`: sums may be added up in another order.

    A rewrite proposes, and a check that looks at the programs alone decides (`Rewrite.broken`). Raises QuotaExceeded.
    """
    if names is not None:
        form = Form.SEARCHED if names else Form.WRITTEN
    order: list[Callable[[Scop], Iterator[Step]]] = [without_dead, returned, split_live_ranges]
    order += [row_buffers, own_copies, digits] if form is Form.SEARCHED else []
    order += [joint_blocks] if reassociate and form is Form.SEARCHED else []
    if reassociate:
        order += [multiply_adds, sums_of_read_bounds]
        order += [factors_in_place, zero_points] if form is Form.SEARCHED else []
        order += [linear_sums]
        order += [gathered, results_of_sums, expand, beside] if form is Form.SEARCHED else []
    order += [first_iterations, tabulated] if form is Form.SEARCHED else []
    order += [lambda one: in_place(one, reassociate=reassociate), forward]
    if form is Form.SEARCHED:
        order += [results_of_blocks] if reassociate else []
        order += [columns]
        order += [lambda one: strips(one, reassociate=reassociate)]
        order += [reduction_fission] if reassociate else []
        order += [lambda one: reroll(one, reassociate=reassociate), lambda one: upwards(one, reassociate=reassociate)]
        order += [widen] if reassociate else []
        order += [staircase]
        order += [around_products] if reassociate else []
        order += [lambda one: partial(one, reassociate=reassociate), values_of_extremes]
        order += [borders, interiors]
    steps: list[Step] = []
    refused: list[str] = []
    for rewrite in order:
        steps += _held(rewrite(applied(scop, steps)), refused)
    made = applied(scop, steps)
    found = dependences(made, reads=False)
    if form is Form.SEARCHED and (cuts := _held(split(made, found), refused)):
        steps, made = [*steps, *cuts], cuts[-1].after
        found = dependences(made, reads=False)
    if names and not set(names) <= {s.name for s in made.statements}:
        return canonical(scop, reassociate=reassociate, form=Form.WRITTEN)
    return Canonical(scop, made, found, tuple(steps), tuple(refused))


def long_enough(scop: Scop) -> isl.Set:
    """{ [parameters] } of a program as it was read for which its loops are long enough to be cut at their ends, where
    terms of a sum are missing or subscripts change there; of a sum that scatters, in the loops of one that gathers.
    Raises QuotaExceeded."""
    with quota(f"the ends of the loops of {scop.function}"):
        return apart(applied(scop, tuple(gathered(scop)))).intersect(wide_enough(scop))


def kept_as_written(scop: Scop, statement: Statement) -> str | None:
    """Why a sum of a searched program has not the form that microkernels have, where a rewrite is about it and did not
    apply; None for others. Raises QuotaExceeded."""
    return zero_points_stay(scop, statement) or borders_stay(scop, statement)


def _held(steps: Iterator[Step], refused: list[str]) -> list[Step]:
    """The steps before the first one whose check fails, or which takes isl too long to find; why is added to
    `refused`."""
    held: list[Step] = []
    try:
        for step in steps:
            why = step.broken()
            if why is not None:
                refused.append(f"not rewritten: {step}: {why}")
                break
            held.append(step)
    except QuotaExceeded as error:
        refused.append(f"not rewritten further: {error.reason}")
    return held
