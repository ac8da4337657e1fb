"""The laws of every joint combiner, by exact algebra."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from polydl.equations.algebra import equal
from polydl.model.expr import Binary, Call, Const, Expr, on_operands
from polydl.model.joint_combiners import JOINT_COMBINERS, JointCombiner, formula
from polydl.model.types import F64

pytestmark = pytest.mark.parametrize("row", JOINT_COMBINERS, ids=lambda row: row.name)


def named(value: Expr, values: Mapping[str, Expr]) -> Expr:
    """A formula with expressions in place of names."""
    if isinstance(value, Const):
        return values.get(value.text, value)
    return on_operands(value, lambda one: named(one, values))


def joined(row: JointCombiner, a: Mapping[str, Expr], b: Mapping[str, Expr]) -> dict[str, Expr]:
    """The state of two groups."""
    values = {f"{group}.{name}": one for group, state in (("a", a), ("b", b)) for name, one in state.items()}
    for name, text in row.join.items():
        values[name] = named(formula(text), values)
    return {name: values[name] for name in row.state}


def lifted(row: JointCombiner, k: int) -> dict[str, Expr]:
    """The state of the element with number k."""
    own = {name: Const(f"{name}{k}") for name in row.elements}
    return {name: named(formula(row.lift[name]), own) for name in row.state}


def of_block(row: JointCombiner, elements: int) -> dict[str, Expr]:
    """The state of a block, as its passes make it."""
    values: dict[str, Expr] = {}
    each: list[dict[str, Expr]] = [{name: Const(f"{name}{k}") for name in row.elements} for k in range(elements)]
    for one in row.block:
        if one.each:
            for own in each:
                own[one.name] = named(formula(one.formula), {**values, **own})
        elif one.combiner is None:
            values[one.name] = named(formula(one.formula), values)
        else:
            terms = [named(formula(one.formula), {**values, **own}) for own in each]
            whole = terms[0]
            for term in terms[1:]:
                whole = Binary("+", whole, term) if one.combiner.symbol == "+" else Call("fmax", (whole, term), F64)
            values[one.name] = whole
    return {name: values[name] for name in row.state}


def same(a: Mapping[str, Expr], b: Mapping[str, Expr]) -> bool:
    return equal({name: (a[name], b[name]) for name in a}, {})


def test_joining_is_associative(row: JointCombiner) -> None:
    a, b, c = ({name: Const(f"{group}_{name}") for name in row.state} for group in "pqr")
    assert same(joined(row, joined(row, a, b), c), joined(row, a, joined(row, b, c)))


def test_blocks_are_elements_joined(row: JointCombiner) -> None:
    state = lifted(row, 0)
    assert same(of_block(row, 1), state)
    for elements in (2, 3):
        state = joined(row, state, lifted(row, elements - 1))
        assert same(of_block(row, elements), state)


def test_zeros_are_the_identity(row: JointCombiner) -> None:
    """What is no zero of the identity is joined as an extreme, which a block starts from."""
    a = {name: Const("0") if name in row.identity else Const(f"p_{name}") for name in row.state}
    b = lifted(row, 0)
    extremes = {one.name for one in row.block if one.combiner is not None and one.combiner.better}
    started = {name: joined(row, a, b)[name] if name in extremes else one for name, one in b.items()}
    if extremes:  # relative to another extreme the block's sums are others
        started = {**of_started(row, a), **{name: started[name] for name in extremes}}
    assert same(joined(row, a, b), started)


def of_started(row: JointCombiner, a: Mapping[str, Expr]) -> dict[str, Expr]:
    """The state of a block of one element whose extremes start from another state."""
    values: dict[str, Expr] = {name: Const(f"{name}0") for name in row.elements}
    for one in row.block:
        made = named(formula(one.formula), values)
        extreme = one.combiner is not None and one.combiner.better
        values[one.name] = Call("fmax", (a[one.name], made), F64) if extreme else made
    return {name: values[name] for name in row.state}


def test_another_join_is_caught(row: JointCombiner) -> None:
    """The laws hold of the row, and not of one that is wrong in a sign."""
    a, b = ({name: Const(f"{group}_{name}") for name in row.state} for group in "pq")
    last = row.state[-1]
    right = joined(row, a, b)[last]
    assert not same({last: right}, {last: Binary("+", right, Binary("*", a[last], Const("2")))})
