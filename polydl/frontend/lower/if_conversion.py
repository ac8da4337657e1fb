"""Assignments that data decide about, as assignments of a choice: statements like all others.

    if (x > m) m = x;                       m = x > m ? x : m;
    if (x > best) { best = x; at = j; }     at = x > best ? j : at;  best = x > best ? x : best;
    if (x > t) s += x;                      s += x > t ? x : -0.0f;
    if (x > 0) y[i] = x; else y[i] = 0;     y[i] = x > 0 ? x : 0;
    if (x < 0) x = 0; else if (x > 1) x = 1;        x = x < 0 ? 0 : x > 1 ? 1 : x;
    if (x > a) { b = a; a = x; } else if (x > b) b = x;     b = x > a ? a : x > b ? x : b;  a = x > a ? x : a;
    if (x > m) { s = s * f(m - x) + 1; m = x; } else s += f(x - m);     the same way
    if (x > 0) { t = f(x); y[i] = t; }      t = x > 0 ? f(x) : 0;  and the rest, of which only arms read t
    if (u) { if (x > m) m = x; n++; }       m = u && x > m ? x : m;  n += u ? 1 : 0;

Each side computes the same bits. Adding -0.0 changes no number, as adding 0.0 does with -0.0. A store that would not
have happened is made to scalars of the function, and to elements that the region stores to whatever the data are:
others may look at what it leaves alone, or own it. Which elements those are is known when the whole region has been
read (`illegal_speculation`).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import combinations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.tree_parts import integer, items_of, text_of
from polydl.frontend.lower.blackbox import private
from polydl.frontend.lower.raw import Walked
from polydl.frontend.lower.state import State, asked
from polydl.frontend.meaning.symbols import mentions
from polydl.model import isl
from polydl.model.combiners import idle
from polydl.model.scop import Access, Assignment, Statement, Storage
from polydl.model.types import F32, F64, ElementType, common, spelled


def if_converted(node: c_ast.If, state: State) -> tuple[Node, ...]:
    """The assignments that an `if` stands for; none where it is something else. Raises InputError."""
    if state.stays(node):
        return ()
    made = _choices(node, state)
    if not _may_store_nothing(node):
        return made
    stored = [one for one in made if isinstance(one, c_ast.Assignment) and not _private(one.lvalue, state)]
    if any(state.values().written(one.lvalue, state.domain).chosen for one in stored):
        return ()  # where the data choose none, they may name no element at all: `if (k[i] >= 0) y[k[i]] += 1;`
    state.walked.stores.update((id(one), (one, node)) for one in stored)
    return made


def _may_store_nothing(node: Node) -> bool:
    """Whether an `if` has no `else`, or the last of a chain of them has none."""
    last: Node | None = node
    while isinstance(last, c_ast.If) and last.iffalse is not None:
        last = _only(last.iffalse)
    return isinstance(last, c_ast.If)


def illegal_speculation(statements: Sequence[Statement], walked: Walked, known: isl.Set) -> frozenset[int]:
    """Those `if`s, by identity, of whose assignments one stores to elements that nothing else surely stores to.

    `statements`: those that were walked; `known`: about the parameters.
    """
    sure: dict[str, isl.Set] = {}
    conditional: list[tuple[int, Access]] = []
    for raw, statement in zip(walked.statements, statements, strict=True):
        if not isinstance(statement.body, Assignment):
            continue
        target = statement.accesses[statement.body.target]
        if id(raw.node) in walked.stores:
            conditional.append((asked(walked.stores[id(raw.node)][1]), target))
        else:
            stored = target.relation.range()
            sure[target.array] = sure[target.array].union(stored) if target.array in sure else stored
    return frozenset(
        node
        for node, target in conditional
        if target.array not in sure or not target.relation.range().intersect_params(known).is_subset(sure[target.array])
    )


def _choices(node: c_ast.If, state: State) -> tuple[Node, ...]:
    condition = node.cond
    while node.iffalse is None and isinstance(inner := _only(node.iftrue), c_ast.If) and inner.iffalse is None:
        # if (a) if (b) x = e;
        condition = c_ast.BinaryOp("&&", condition, inner.cond, inner.coord)
        node = inner
    apart = _temporaries_apart(node, condition, state)
    if apart is not None:
        return (apart,)
    then = _assignments(node.iftrue)
    if node.iffalse is None:
        if not then and len(items := items_of(node.iftrue)) > 1:
            return _each(condition, items, state)
        return _chosen(condition, then, None, state)
    if not isinstance(chained := _only(node.iffalse), c_ast.If):
        return _chosen(condition, then, _assignments(node.iffalse), state)
    # if (a) x = e; else if (b) x = f; else x = g;
    several = _choices(chained, state)
    others = [one for one in several if isinstance(one, c_ast.Assignment)]
    return _chosen(condition, then, others, state) if len(others) == len(several) else ()


def _each(condition: Node, items: Sequence[Node], state: State) -> tuple[Node, ...]:
    """`if (c) { if (a) x = e; y += f; }` as `if (c && a) x = e;` and `if (c) y += f;`; none where c may be another
    behind one of them."""
    made: list[Node] = []
    memory = state.memory(condition, *items)
    for item in items:
        stored = (memory.place(one.lvalue) for one in made if isinstance(one, c_ast.Assignment))
        if any(memory.touches(condition, place) for place in stored):
            return ()
        several = _choices(c_ast.If(copy.deepcopy(condition), item, None, item.coord), state)
        if not several or not all(isinstance(one, c_ast.Assignment) for one in several):
            return ()
        made += several
    return tuple(made)


def _only(node: Node) -> Node | None:
    """The one statement of a branch; None where there is another number."""
    items = items_of(node)
    return items[0] if len(items) == 1 else None


def _assignments(node: Node) -> tuple[c_ast.Assignment, ...]:
    """The assignments that a branch consists of; none where there is something else in it."""
    found = []
    for item in items_of(node):
        match item:
            case c_ast.Assignment() if not isinstance(item.rvalue, c_ast.Assignment):
                found.append(item)
            case c_ast.UnaryOp(op="p++" | "++" | "p--" | "--"):
                op = "+=" if "+" in item.op else "-="
                found.append(c_ast.Assignment(op, item.expr, integer(1, item.coord), item.coord))
            case _:
                return ()
    return tuple(found)


def _temporaries_apart(node: c_ast.If, condition: Node, state: State) -> Node | None:
    """An `if` behind the temporaries of its arms, which are made in front of it where their arm runs; None where it has
    none, or may not be taken apart so."""
    own = {one.name: one.ctype for one in private(node, state) if isinstance(one.ctype, ElementType)}
    temporaries: dict[str, tuple[Node, Node]] = {}
    """What is made in front, and the value that an arm has."""
    arms: list[list[Node]] = []
    for branch, runs in ((node.iftrue, True), (node.iffalse, False)):
        arms.append([])
        for item in items_of(branch):
            made = _temporary(item, own, state)
            if made is None:
                arms[-1].append(item)
                continue
            name, ctype, value = made
            if name in temporaries or ctype not in (F32, F64):
                return None
            zero = c_ast.Constant(ctype.c, f"0.0{ctype.suffix or ''}", item.coord)
            chosen = c_ast.TernaryOp(
                copy.deepcopy(condition), value if runs else zero, zero if runs else value, item.coord
            )
            one = copy.copy(item)
            setattr(one, "init" if isinstance(item, c_ast.Decl) else "rvalue", chosen)
            temporaries[name] = one, value
    if not temporaries or not arms[0] or (node.iffalse is not None and not arms[1]):
        return None
    stored = [one for arm in arms for part in arm for one in _assignments(part)]
    if len(stored) != sum(map(len, arms)):
        return None
    if node.iffalse is None and not all(_private(one.lvalue, state) for one in stored):
        return None  # whether it may be stored to anyway is asked of the whole `if`
    # Nothing that an arm stores is read by a temporary or by the condition, which are now in front of all stores.
    memory = state.memory(node)
    asked = [condition, *(value for _, value in temporaries.values())]
    if any(memory.touches(part, memory.place(one.lvalue)) for part in asked for one in stored):
        return None
    if temporaries.keys() & set(mentions(condition)):
        return None
    parts = [c_ast.Compound(arm, node.coord) for arm in arms]
    left = c_ast.If(condition, parts[0], parts[1] if node.iffalse is not None else None, node.coord)
    return c_ast.Compound([*(one for one, _ in temporaries.values()), left], node.coord)


def _temporary(item: Node, own: Mapping[str, ElementType], state: State) -> tuple[str, ElementType, Node] | None:
    """Name, type and value of a scalar that an arm declares, or gives the only value that it has; None of others."""
    match item:
        case c_ast.Decl(type=c_ast.TypeDecl(type=c_ast.IdentifierType(names=names))) if item.init and not item.storage:
            ctype = spelled(" ".join(names))
            return (item.name, ctype, item.init) if ctype is not None else None
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name)) if name in own:
            return name, own[name], item.rvalue
    return None


def _chosen(
    condition: Node, then: Sequence[c_ast.Assignment], otherwise: Sequence[c_ast.Assignment] | None, state: State
) -> tuple[c_ast.Assignment, ...]:
    """An assignment for each one that an arm makes, or that both make of one place, in an order in which none is read
    after it was made; none where there is no such order, or one of two arms reads what it has made. Those of a single
    arm (`otherwise` None) run one after the other as they did: the condition alone must not read what was made."""
    made: list[c_ast.Assignment | None]
    memory = state.memory(condition, *then, *(otherwise or ()))

    def made_of(one: c_ast.Assignment, code: Node) -> bool:
        return memory.touches(code, memory.place(one.lvalue))

    if otherwise is None:
        made = [_alone(condition, one, state) for one in then]
    else:
        arms = [{text_of(one.lvalue): one for one in arm} for arm in (then, otherwise)]
        if not all(arms) or len(arms[0]) < len(then) or len(arms[1]) < len(otherwise):
            return ()
        if any(made_of(one, later) for arm in (then, otherwise) for one, later in combinations(arm, 2)):
            return ()
        made = [_either(condition, [arm.get(place) for arm in arms], state) for place in arms[0] | arms[1]]
    parts = [one for one in made if one is not None]
    if len(parts) < len(made):
        return ()

    def reads(at: int, other: int) -> bool:
        return made_of(parts[other], parts[at] if otherwise is not None else then[at])

    def comes_first(at: int, other: int) -> bool:
        if otherwise is not None:
            return reads(at, other)
        asked_for = made_of(parts[other], condition)
        return asked_for or (at < other and (reads(at, other) or reads(other, at)))

    ordered: list[c_ast.Assignment] = []
    left = list(range(len(parts)))
    while left:
        free = (at for at in left if not any(comes_first(other, at) for other in left if other != at))
        found = next(free, None)
        if found is None:
            return ()
        left.remove(found)
        ordered.append(parts[found])
    return tuple(ordered)


def _either(condition: Node, sides: Sequence[c_ast.Assignment | None], state: State) -> c_ast.Assignment | None:
    """The assignment of what two arms make of a place, None of one that leaves it alone; None where there is none."""
    some, *others = (side for side in sides if side is not None)
    if others and (made := _both(condition, some, others[0], state)) is not None:
        return made
    if not _private(some.lvalue, state):
        return None
    stays = c_ast.Assignment("=", some.lvalue, copy.deepcopy(some.lvalue), some.coord)
    one, other = (_plain(side or stays) for side in sides)
    return _both(condition, one, other, state)


def _plain(one: c_ast.Assignment) -> c_ast.Assignment:
    """`x = x op e` of `x op e`, a scalar's."""
    if one.op == "=":
        return one
    value = c_ast.BinaryOp(one.op[:-1], copy.deepcopy(one.lvalue), one.rvalue, one.coord)
    return c_ast.Assignment("=", one.lvalue, value, one.coord)


def _both(condition: Node, one: c_ast.Assignment, other: c_ast.Assignment, state: State) -> c_ast.Assignment | None:
    """`if (c) x op a; else x op b;` as `x op (c ? a : b)`; None where it is something else."""
    if one.op != other.op or not _known(one.lvalue, state):
        return None
    types = [_type(side.rvalue, state) for side in (one, other)]
    meant = common(*types)
    # Where both sides are made one type, neither may lose by it.
    if not all(meant.holds(t) or _small(side.rvalue) for t, side in zip(types, (one, other), strict=True)):
        return None
    return _assigned(one, condition, one.rvalue, other.rvalue)


def _alone(condition: Node, one: c_ast.Assignment, state: State) -> c_ast.Assignment | None:
    """`if (c) x op e;` as an assignment; None where that would change values."""
    if not _known(one.lvalue, state):
        return None
    own, made = _type(one.lvalue, state), _type(one.rvalue, state)
    if one.op == "=":
        meant = common(own, made)
        # x = c ? e : x makes both sides one type on the way: x must come back as it was, e become what it would.
        if not meant.holds(own) or not (meant is own or meant.holds(made)):
            return None
        return _assigned(one, condition, one.rvalue, copy.deepcopy(one.lvalue))
    kind, suffix = ("int", "") if own.is_int else (own.c, own.suffix or "")
    nothing = idle(one.op, own, made) if own.is_int or own in (F32, F64) else None
    if nothing is None:
        return None
    number: Node = c_ast.Constant(kind, f"{nothing.lstrip('-')}{suffix}", one.coord)
    if nothing.startswith("-"):
        number = c_ast.UnaryOp("-", number, one.coord)
    return _assigned(one, condition, one.rvalue, number)


def _assigned(one: c_ast.Assignment, condition: Node, then: Node, otherwise: Node) -> c_ast.Assignment:
    chosen = c_ast.TernaryOp(copy.deepcopy(condition), then, otherwise, one.coord)
    return c_ast.Assignment(one.op, one.lvalue, chosen, one.coord)


def _private(place: Node, state: State) -> bool:
    """Whether an lvalue is a scalar that nobody else sees."""
    found = state.scope.find(place.name) if isinstance(place, c_ast.ID) else None
    return found is not None and found.is_scalar and found.storage is not Storage.GLOBAL


def _known(place: Node, state: State) -> bool:
    """Whether an lvalue is data: an integer that the polyhedral model still knows by value is none."""
    if not isinstance(place, c_ast.ID):
        return True
    found = state.scope.find(place.name)
    return found is not None and not (found.is_integer and found.name not in state.settings.data)


def _type(value: Node, state: State) -> ElementType:
    """The C type of an expression. Raises InputError."""
    return state.values().expression(value, state.domain)[1]


def _small(value: Node) -> bool:
    """Whether an expression is a literal that every type holds."""
    inner = value.expr if isinstance(value, c_ast.UnaryOp) and value.op in ("-", "+") else value
    return isinstance(inner, c_ast.Constant) and inner.value.isdigit() and len(inner.value) < 3
