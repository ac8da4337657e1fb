"""Entries of a segment that are independent of one another, several at a time: one loop adds up the sums of all.

A sum of products along two rows takes as long as its additions follow one another; those of several entries run side by
side, and what they have in common is loaded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.tree_parts import declaration, indexed, integer, items_of, replaced, text_of
from polydl.frontend.lower.member_nodes import renamed
from polydl.frontend.lower.upward_loops import Bounds, is_fetch
from polydl.frontend.meaning.liveness import stored_names
from polydl.frontend.meaning.memory_places import Memory
from polydl.frontend.meaning.symbols import mentions, nodes

AT_A_TIME = 4
"""Entries; as many additions hide the latency of one on the processors of this decade."""
_COPY = "polydl_{}_{}"
_ENTRY = "polydl_entry"


def jammed(
    bounds: Bounds, summed: Callable[[c_ast.For, Mapping[str, str]], Node | None], memory: Memory
) -> list[Node] | None:
    """A loop over `first <= counter < last` with four entries in an iteration, and one over what is left; None
    where an iteration is more than declarations, one sum, and elements of its own entry that it sets.

    before:    for (p = first; p < last; p++) { float s = 0; for (k) s += a[i][k] * b[idx[p]][k]; out[p] = s; }
    after:     entry = first;
               for (; entry < last && last - entry >= 4; entry += 4) {
                 float s_0 = 0, …, s_3 = 0;
                 for (k) { s_0 += a[i][k] * b[idx[entry]][k]; …; s_3 += a[i][k] * b[idx[entry + 3]][k]; }
                 out[entry] = s_0; …; out[entry + 3] = s_3;
               }
               for (p = entry; p < last; p++) …
    requires:  arrays that an iteration writes are mentioned as `array[counter]` alone

    `summed`: a loop that adds up, in lanes, by new names of scalars their old ones; `memory`: of the code around.
    """
    loop, counter, last = bounds.loop, bounds.counter, bounds.past
    items = items_of(loop.stmt)
    declared = [one for one in items if isinstance(one, c_ast.Decl) and _is_scalar(one)]
    fetches = [one for one in items if is_fetch(one)]
    rest = [one for one in items if one not in (*declared, *fetches)]
    inner, stores = rest[0] if rest else None, rest[1:]
    if not isinstance(inner, c_ast.For) or items != [*fetches, *declared, inner, *stores]:
        return None
    names = [one.name for one in declared]
    heads = {name for _, part in inner.children() if part is not inner.stmt for name in mentions(part)}
    alone = _independent(declared, inner, stores, counter, names, memory) and not heads & {counter, *names}
    if not alone or not _known(loop, stores, last, memory):
        return None
    sums = items_of(inner.stmt)
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
    enough = c_ast.BinaryOp(">=", c_ast.BinaryOp("-", last, c_ast.ID(_ENTRY)), integer(AT_A_TIME))
    condition = c_ast.BinaryOp("&&", c_ast.BinaryOp("<", c_ast.ID(_ENTRY), last), enough)
    step = c_ast.Assignment("+=", c_ast.ID(_ENTRY), integer(AT_A_TIME))
    assert isinstance(loop.init, c_ast.DeclList), "says `_known`"
    (own,) = loop.init.decls
    again, left = copy(own), copy(loop)
    again.init = c_ast.ID(_ENTRY)
    left.init = c_ast.DeclList([again])
    begin = declaration(renamed(own.type, _ENTRY), _ENTRY, bounds.first)
    return [begin, c_ast.For(None, condition, step, c_ast.Compound(body)), left]


def _independent(
    declared: Sequence[c_ast.Decl],
    inner: c_ast.For,
    stores: Sequence[Node],
    counter: str,
    names: Sequence[str],
    memory: Memory,
) -> bool:
    """Whether iterations have nothing in common but what they read."""
    targets: list[str] = []
    for one in stores:
        array, subscripts = indexed(one.lvalue) if isinstance(one, c_ast.Assignment) else ("", [])
        if not array or [*map(text_of, subscripts)] != [counter]:
            return False
        targets.append(array)
    everything: list[Node] = [*(d.init for d in declared if d.init is not None), inner, *stores]
    elsewhere = {name for part in everything for name in stored_names(part)} - {*names, *targets, *_counters(inner)}
    alone = all(_mentioned_at(part, array, counter, memory) for array in targets for part in everything)
    return bool(targets) and not elsewhere and alone


def _counters(loop: c_ast.For) -> list[str]:
    """What a loop declares and counts with."""
    return [d.name for d in loop.init.decls] if isinstance(loop.init, c_ast.DeclList) else []


def _known(loop: c_ast.For, stores: Sequence[Node], last: Node, memory: Memory) -> bool:
    """Whether the loop declares its variable, and its end is none of what it writes."""
    scalar = isinstance(loop.init, c_ast.DeclList) and all(map(_is_scalar, loop.init.decls))
    return scalar and not any(memory.changes_what_is_read(one, last) for one in stores)


def _mentioned_at(node: Node, array: str, counter: str, memory: Memory) -> bool:
    """Whether an array is mentioned as `array[counter]` alone, and nothing else that may lead into it."""
    place = memory.place(c_ast.ID(array))
    if any(memory.touches(c_ast.ID(name), place) for name in {*mentions(node)} - {array}):
        return False
    own = [one for one in nodes(node) if isinstance(one, c_ast.ArrayRef) and text_of(one) == f"{array}[{counter}]"]
    return len(own) == [*mentions(node)].count(array)


def _entry(k: int) -> Node:
    entry = c_ast.ID(_ENTRY)
    return c_ast.BinaryOp("+", entry, integer(k)) if k else entry


def _renamed(one: c_ast.Decl, known: Mapping[str, Node], k: int) -> c_ast.Decl:
    """The declaration of an entry's own scalar."""
    name = _COPY.format(one.name, k)
    value = None if one.init is None else replaced(one.init, known)
    return c_ast.Decl(name, list(one.quals), [], [], [], renamed(one.type, name), value, None)


def _is_scalar(one: c_ast.Decl) -> bool:
    return isinstance(one.type, c_ast.TypeDecl) and not one.storage
