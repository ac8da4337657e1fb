"""Statements that rewrites add to programs or give other instances, and loops that they take apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polydl.model import isl
from polydl.model.expr import Expr, affine_values, on_affine_values
from polydl.model.scop import Access, Assignment, Scop, Statement
from polydl.model.time import map_from_affs


def assignment(
    like: Statement,
    name: str,
    loops: tuple[Sequence[str], isl.Set],
    position: Sequence[int],
    touched: Sequence[isl.Map],
    value: Expr,
    op: str = "=",
) -> Statement:
    """`target op value` in loops of its own, some of which may be those of another statement.

    `loops`: iterators and domain; `touched`: { [i…] -> A[a…] } what the loads of the value read, by number, and last
    the target. The names of what relations and domain start from don't matter.
    """
    iterators, domain = tuple(loops[0]), isl.named(loops[1].set_tuple_name(name), loops[0])
    *reads, target = touched
    several = [*reads, target] if op == "=" else [*reads, target, target]
    accesses = tuple(
        Access(isl.range_name(one), number == len(several), isl.domain_named(one, name, iterators), like.span)
        for number, one in enumerate(several, 1)
    )
    body = Assignment(len(several) - 1, op, value, None if op == "=" else len(reads))
    down = like.descending & {*iterators}
    return Statement(name, iterators, domain, tuple(position), down, accesses, body, like.span)


def free_statement_name(scop: Scop, stem: str) -> str:
    """A name that no statement has: the stem with a number."""
    names, number = {s.name for s in scop.statements}, 0
    while f"{stem}{number}" in names:
        number += 1
    return f"{stem}{number}"


def functions_of(statement: Statement) -> list[isl.PwAff] | None:
    """The subscripts of all accesses of an assignment and the values of iterators in it, in order; None where an access
    has several."""
    assert isinstance(statement.body, Assignment)
    found: list[isl.PwAff] = []
    for access in statement.accesses:
        if not access.relation.is_single_valued():
            return None
        found += isl.components(access.relation.as_pw_multi_aff())
    return [*found, *(one.value for one in affine_values(statement.body.value))]


def forms_of(statement: Statement) -> list[isl.Aff] | None:
    """What `functions_of` are in the statement's domain; None where one is not one expression."""
    pieces = [isl.pieces(one.gist(statement.domain)) for one in functions_of(statement) or ()]
    return [own[0][1] for own in pieces] if pieces and all(len(own) == 1 for own in pieces) else None


def on_instances(statement: Statement, forms: Sequence[isl.Aff], domain: isl.Set, name: str) -> Statement:
    """An assignment for other instances under another name, with these expressions for those that `forms_of` says."""
    assert isinstance(statement.body, Assignment)
    domain = domain.set_tuple_name(name)
    own = iter([isl.function_named(isl.PwAff.from_aff(one), name) for one in forms])
    accesses = []
    for access in statement.accesses:
        subscripts = [next(own) for _ in range(isl.range_arity(access.relation))]
        relation = isl.range_named(map_from_affs(domain, subscripts), access.array).intersect_domain(domain)
        accesses.append(replace(access, relation=relation))
    value = on_affine_values(statement.body.value, lambda _: next(own).intersect_domain(domain))
    body = replace(statement.body, value=value)
    return replace(statement, name=name, domain=domain, accesses=tuple(accesses), body=body)


def shifted(statement: Statement, loop: tuple[int, ...], *, behind: int, inside: int = 0) -> Statement:
    """The statement with room for so many more behind a loop, and at its begin."""
    depth, at = len(loop) - 1, list(statement.position)
    if statement.depth < depth or tuple(at[:depth]) != loop[:depth]:
        return statement
    if at[depth] > loop[depth]:
        at[depth] += behind
    elif at[depth] == loop[depth] and statement.depth > depth:
        at[depth + 1] += inside
    return replace(statement, position=tuple(at))


def in_two(statement: Statement, depth: int, number: int, *, first: int = 0, innermost: bool = False) -> isl.Map:
    """{ S[…, i, …] -> […, q, r, …] : i = first + number q + r, 0 <= r < number }; `innermost`: r at the end."""
    at = isl.coordinates(statement.domain)
    counted = at[depth].add_constant_val(isl.value(-first))
    quotient = isl.floor_div(counted, number)
    left = counted.sub(quotient.scale_val(isl.value(number)))
    inner = [*at[depth + 1 :], left] if innermost else [left, *at[depth + 1 :]]
    return map_from_affs(statement.domain, [*at[:depth], quotient, *inner])


def iterators_in_two(statement: Statement, depth: int, *, innermost: bool = False) -> tuple[str, ...]:
    """The iterators of these loops: the one over quotients keeps its name."""
    names = statement.iterators
    inner = next(n for n in (f"{names[depth]}{k}" for k in range(statement.depth + 1)) if n not in names)
    return (*names, inner) if innermost else (*names[: depth + 1], inner, *names[depth + 1 :])
