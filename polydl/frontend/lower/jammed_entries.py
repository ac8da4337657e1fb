"""Entries of a segment that are independent of one another, several at a time: one loop adds up the sums of all.

A sum of products along two rows takes as long as its additions follow one another; those of several entries run side by
side, and what they have in common is loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.tree_parts import declaration, integer, items_of, replaced
from polydl.frontend.lower.rows_ahead import is_fetch
from polydl.frontend.meaning.liveness import stored_names
from polydl.frontend.meaning.symbols import mentions

AT_A_TIME = 4
"""Entries; as many additions hide the latency of one on the processors of this decade."""
_COPY = "polydl_{}_{}"
_ENTRY = "polydl_entry"


def jammed(
    loop: c_ast.For,
    counter: str,
    last: Node,
    summed: Callable[[c_ast.For, Mapping[str, str]], Node | None],
) -> Node | None:
    """A loop over `first <= counter < last` with four entries in an iteration, without what is left at its end; None
    where an iteration is more than declarations, one sum, and elements of its own entry that it sets.

    before:    for (p = first; p < last; p++) { float s = 0; for (k) s += a[i][k] * b[idx[p]][k]; out[p] = s; }
    after:     for (entry = first; entry < last && last - entry >= 4; entry += 4) {
                 float s_0 = 0, …, s_3 = 0;
                 for (k) { s_0 += a[i][k] * b[idx[entry]][k]; …; s_3 += a[i][k] * b[idx[entry + 3]][k]; }
                 out[entry] = s_0; …; out[entry + 3] = s_3;
               }
    requires:  arrays that an iteration writes are mentioned as `array[counter]` alone

    `summed`: a loop that adds up, in lanes, by new names of scalars their old ones.
    """
    items = items_of(loop.stmt)
    declared = [one for one in items if isinstance(one, c_ast.Decl) and _is_scalar(one)]
    fetches = [one for one in items if is_fetch(one)]
    rest = [one for one in items if one not in (*declared, *fetches)]
    inner, stores = rest[0] if rest else None, rest[1:]
    if not isinstance(inner, c_ast.For) or items != [*fetches, *declared, inner, *stores]:
        return None
    names = [one.name for one in declared]
    if not _independent(declared, inner, stores, counter, names) or not _known(loop, stores, last):
        return None
    sums = items_of(inner.stmt)
    heads = [part for part in (inner.init, inner.cond, inner.next) if part is not None]
    if {counter, *names} & {name for head in heads for name in mentions(head)}:
        return None
    copies: list[dict[str, Node]] = [
        {counter: _entry(k), **{name: c_ast.ID(_COPY.format(name, k)) for name in names}} for k in range(AT_A_TIME)
    ]
    together = copy(inner)
    together.stmt = c_ast.Compound([replaced(one, known) for known in copies for one in sums])
    lanes = summed(together, {_COPY.format(name, k): name for name in names for k in range(AT_A_TIME)})
    if lanes is None:
        return None
    body: list[Node] = [_renamed(one, known, k) for k, known in enumerate(copies) for one in declared]
    body += [lanes, *(replaced(one, known) for known in copies for one in stores)]
    body = [*(replaced(one, known) for known in copies for one in fetches), *body]
    left = c_ast.BinaryOp("-", last, c_ast.ID(_ENTRY))
    enough = c_ast.BinaryOp(">=", left, integer(AT_A_TIME))
    condition = c_ast.BinaryOp("&&", c_ast.BinaryOp("<", c_ast.ID(_ENTRY), last), enough)
    step = c_ast.Assignment("+=", c_ast.ID(_ENTRY), integer(AT_A_TIME))
    return c_ast.For(None, condition, step, c_ast.Compound(body))


def entry_of(loop: c_ast.For, first: Node, several: Node) -> tuple[Node, Node, c_ast.For]:
    """The declaration of where the entries are, the loop that takes several of them, and that from there on."""
    assert isinstance(loop.init, c_ast.DeclList), "says `jammed`"
    (own,) = loop.init.decls
    declared = declaration(_named(own.type, _ENTRY), _ENTRY, first)
    again = copy(own)
    again.init = c_ast.ID(_ENTRY)
    rest = copy(loop)
    rest.init = c_ast.DeclList([again])
    return declared, several, rest


def _independent(
    declared: Sequence[c_ast.Decl], inner: c_ast.For, stores: Sequence[Node], counter: str, names: Sequence[str]
) -> bool:
    """Whether iterations have nothing in common but what they read."""
    targets: list[str] = []
    for one in stores:
        match one:
            case c_ast.Assignment(lvalue=c_ast.ArrayRef(name=c_ast.ID(name=array), subscript=c_ast.ID(name=name))):
                if name != counter:
                    return False
                targets.append(array)
            case _:
                return False
    everything: list[Node] = [*(d.init for d in declared if d.init is not None), inner, *stores]
    elsewhere = {name for part in everything for name in stored_names(part)} - {*names, *targets, *_counters(inner)}
    alone = all(_mentioned_at(part, array, counter) for array in targets for part in everything)
    return bool(targets) and not elsewhere and alone


def _counters(loop: c_ast.For) -> list[str]:
    """What a loop declares and counts with."""
    return [d.name for d in loop.init.decls] if isinstance(loop.init, c_ast.DeclList) else []


def _known(loop: c_ast.For, stores: Sequence[Node], last: Node) -> bool:
    """Whether the loop declares its variable, and its end is none of what it writes."""
    scalar = isinstance(loop.init, c_ast.DeclList) and all(map(_is_scalar, loop.init.decls))
    return scalar and not {name for one in stores for name in stored_names(one)} & set(mentions(last))


def _mentioned_at(node: Node, array: str, counter: str) -> bool:
    """Whether an array is mentioned as `array[counter]` alone."""
    match node:
        case c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=subscript) if name == array:
            return isinstance(subscript, c_ast.ID) and subscript.name == counter
        case c_ast.ID(name=name):
            return bool(name != array)
    return all(_mentioned_at(child, array, counter) for _, child in node.children())


def _entry(k: int) -> Node:
    entry = c_ast.ID(_ENTRY)
    return c_ast.BinaryOp("+", entry, integer(k)) if k else entry


def _renamed(one: c_ast.Decl, known: Mapping[str, Node], k: int) -> c_ast.Decl:
    """The declaration of an entry's own scalar."""
    name = _COPY.format(one.name, k)
    value = None if one.init is None else replaced(one.init, known)
    return c_ast.Decl(name, list(one.quals), [], [], [], _named(one.type, name), value, None)


def _is_scalar(one: c_ast.Decl) -> bool:
    return isinstance(one.type, c_ast.TypeDecl) and not one.storage


def _named(type_: Node, name: str) -> Node:
    """The type of a declaration, with another name in it."""
    assert isinstance(type_, c_ast.TypeDecl), "of a scalar"
    made = copy(type_)
    made.declname = name
    return made
