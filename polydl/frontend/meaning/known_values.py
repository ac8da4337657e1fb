"""Integers that no data make: what counts (`y[k++] = x[i]`), or says where something was found (`p = i`).

Data decide when such a scalar is given a value, and not which values there are: the element that it chooses is inside
of its array whatever is in memory, so that programs can be measured with data of any kind.
"""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.meaning.liveness import Effect, effect, given_values
from polydl.frontend.meaning.lookup import Lookup
from polydl.frontend.meaning.symbols import Symbol, nodes
from polydl.model.scop import Storage

_TRUTHS = ("<", "<=", ">", ">=", "==", "!=", "&&", "||", "!")


def has_known_values(name: str, walk: Lookup) -> bool:
    """Whether a scalar is declared in the region and never changed, or each of its values is made of its first one, of
    loop variables, sizes and scalars like it: inside of loops that are counted, without which there is nothing to gain
    from what is kept."""
    settings, left, seen = walk.settings, [name], set[str]()
    first = settings.scope.find(name) or walk.scope.find(name)
    if first is not None and first.storage is Storage.REGION and name not in settings.changed:
        return True
    while left:
        if not walk.loops:
            return False
        name = left.pop()
        seen.add(name)
        symbol = settings.scope.find(name)
        if symbol is not None and symbol.is_integer and name not in settings.assigned:
            continue  # a size
        if settings.region is None or not _begins_known(name, symbol, walk):
            return False
        parts = [part for value in given_values(settings.region, name) for part in nodes(value, _is_truth)]
        if any(map(_from_memory, parts)):
            return False
        left += {part.name for part in parts if isinstance(part, c_ast.ID)} - seen
    return True


def is_between_known(counter: str, walk: Lookup) -> bool:
    """Whether the ends of a loop variable whose bounds data decide are made of scalars whose values are known, as where
    a loop runs over what another one counted, or of elements that stay the same."""
    ends = [one.form.factors for one in walk.walked.given if one.name == counter and one.end]

    def known(name: str) -> bool:
        one = walk.data_symbol(c_ast.ID(name))
        if one is None or not one.is_scalar:
            return one is not None and one.ctype.is_int and not walk.is_stored(name)
        return has_known_values(name, walk)

    return bool(ends and walk.loops) and all(known(name) for factors in ends for name in factors)


def _begins_known(name: str, symbol: Symbol | None, walk: Lookup) -> bool:
    """Whether the first value of a scalar is known where the region begins, or given in it. None: one of its own."""
    if symbol is None or symbol.storage is Storage.REGION or name in walk.walked.begun:
        return symbol is None or not symbol.pinned
    region = walk.settings.region
    given = region is not None and effect([region], name) is Effect.KILLS
    return given and symbol.storage is Storage.LOCAL and not symbol.pinned


def _from_memory(node: Node) -> bool:
    """Whether a part of an expression reads an element, or gives something that is not looked into."""
    pointer = isinstance(node, c_ast.UnaryOp) and node.op in ("*", "&")
    return pointer or isinstance(node, c_ast.ArrayRef | c_ast.StructRef | c_ast.FuncCall)


def _is_truth(node: Node) -> bool:
    """Whether an expression is 0 or 1, whatever it is made of."""
    return isinstance(node, c_ast.BinaryOp | c_ast.UnaryOp) and node.op in _TRUTHS
