"""Whether C text loads from memory under conditions that change in a loop which compilers may turn into vectors.

Compilers turn `if (c) x = a[i]` in such a loop into a load with a mask. Where a condition has read the same element
itself, as `a[i] > m ? a[i] : m` has, there is one load before the condition and none under it. A bound of a loop is no
condition: a loop that ends at different places is not turned into vectors, nor what is around it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.base.errors import PolyDLError
from polydl.base.records import dataclass
from polydl.frontend.text.parse import parse
from polydl.frontend.text.preprocess import preprocess
from polydl.frontend.text.scan import SourceText

_MOST_UNROLLED = 16
"""Iterations up to which gcc may write a loop out, and make vectors of the loop around it (its parameter
max-completely-peel-times)."""
_VECTOR = re.compile(r"\b__m(?:128|256|512|mask\d)\w*")
"""Types of vectors and of their masks, of a compiler's own headers."""
_NAMED_VECTOR = re.compile(r"typedef\s+__m\w+\s+(\w+)\s*;|typedef\s+\w+\s+(\w+)\s+__attribute__\s*\(\(\s*vector_size")
_INTRINSIC = "_mm"
"""What names of functions on vectors begin with."""
_MAY_CHOOSE = re.compile(r"\?|&&|\|\||\b(?:if|continue|break|goto|switch)\b")
"""What a text without any condition has nowhere: its loops need not be read."""
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|else|elif|endif|include)\b.*", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_PLAIN_HEADERS = {f"<{name}.h>" for name in ("math", "stddef", "stdint", "stdlib", "string", "omp", "immintrin")}
"""Headers without macros whose conditions read memory."""
_JUMPS = (c_ast.Continue, c_ast.Break, c_ast.Goto, c_ast.Switch)
_LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile)
_CHANGES = ("++", "--", "p++", "p--")


def loads_under_conditions(text: str, cc: str, flags: Sequence[str]) -> bool:
    """Whether a C file has such a load; `flags`: of the preprocessor `cc -E`. True also of one that cannot be read:
    what follows from that costs time and no more."""
    if not _may_choose(text, flags):
        return False
    types = sorted(set(_VECTOR.findall(text)))  # their header is not read
    source = SourceText("<text>", "".join(f"typedef int {name};\n" for name in types) + text)
    try:
        unit = parse(source, [], preprocess(source, [], flags, ".", cc), bodies=True)
    except PolyDLError:
        return True
    functions = {one.decl.name: one.body for one in unit.externals if isinstance(one, c_ast.FuncDef)}
    own = {one.name for one in unit.externals if isinstance(one, c_ast.Decl)}
    made = {name for found in _NAMED_VECTOR.findall(text) for name in found if name}
    return bool(unit.unread) or _File(functions, own, {*types, *made}).found


def _may_choose(text: str, flags: Sequence[str]) -> bool:
    """Whether a text may have a condition: quickly told, since most groups of PyTorch graphs have none."""
    headers = set(_INCLUDED.findall(text))
    return not headers <= _PLAIN_HEADERS or bool(_MAY_CHOOSE.search(" ".join([_DIRECTIVE.sub("", text), *flags])))


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop around some code."""

    changed: frozenset[str]
    """The variables that may differ between its iterations, once all loops inside are written out."""
    vectors: bool
    """Whether compilers may turn it into vectors: it has none yet, and no loop inside is too long to be written out."""


class _File:
    """The functions of a file, which compilers may expand where they are called."""

    def __init__(self, functions: Mapping[str, Any], own: Collection[str], vectors: Collection[str] = ()) -> None:
        self._vectors = frozenset(vectors)
        """Types of vectors."""
        self._own = own
        """Variables of the file, which are in memory."""
        self._functions = functions
        calls = {name: _called(body) & functions.keys() for name, body in functions.items()}
        self._with_vectors = {name for name, body in functions.items() if self._names_vectors(body)}
        while more := {name for name in calls if calls[name] & self._with_vectors} - self._with_vectors:
            self._with_vectors |= more
        self._reading = {name for name, body in functions.items() if any(self.reads(body))}
        while more := {name for name in calls if calls[name] & self._reading} - self._reading:
            self._reading |= more
        in_loops = {name for body in functions.values() for loop in _loops(body) for name in _called(loop)}
        while more := {name for one in in_loops & calls.keys() for name in calls[one]} - in_loops:
            in_loops |= more
        self._in_loops = in_loops

    @property
    def found(self) -> bool:
        """Whether a function has a load under a condition. In one that loops call, all that it is given may change."""
        return any(
            self._found(body, (_Loop(_names(body), self._may_be_vectors(body)),) if name in self._in_loops else ())
            for name, body in self._functions.items()
        )

    def _found(self, node: Any, loops: tuple[_Loop, ...], alone: bool = False) -> bool:
        """Whether there is such a load in code inside of loops, outermost first. `alone`: it is all that the innermost
        one does, so that the two may change places."""
        if isinstance(node, _JUMPS) and any(loop.vectors for loop in loops):
            return True
        if isinstance(node, _LOOPS):
            changed = _changed(node) | (loops[-1].changed if alone else frozenset())
            alone = isinstance(_only(node.stmt), c_ast.For)
            return self._found(node.stmt, (*loops, _Loop(changed, self._may_be_vectors(node.stmt))), alone)
        condition, arms = _choice(node)
        if arms and self._changes(condition, loops) and self._loads(condition, arms):
            return True
        return any(self._found(child, loops, alone) for _, child in node.children())

    def _may_be_vectors(self, code: Any) -> bool:
        """Whether a loop around some code may be turned into vectors."""
        return _short(code) and not _called(code) & self._with_vectors and not self._names_vectors(code)

    def _names_vectors(self, code: Any) -> bool:
        """Whether code has variables that are vectors, or calls functions of the compiler's on them."""
        types = {name for one in _every(code) if isinstance(one, c_ast.IdentifierType) for name in one.names}
        return bool(types & self._vectors) or any(name.startswith(_INTRINSIC) for name in _called(code))

    def _changes(self, condition: Any, loops: tuple[_Loop, ...]) -> bool:
        """Whether a condition may differ between iterations of a loop that may be turned into vectors. (gcc 12.2 takes
        the mask of the first vector for all: of one that stays the same it is the mask of all.)"""
        around = [loop for loop in loops if loop.vectors]
        names = _names(condition)
        return any(names & loop.changed for loop in around) or bool(around and any(self.reads(condition)))

    def _loads(self, condition: Any, arms: list[Any]) -> bool:
        """Whether what runs under a condition reads elements that the condition has not read. Compilers know those it
        has read for the same unless something is stored on the way."""
        known: set[str] = set()
        if not any(map(self._stores, arms)):
            changed = frozenset().union(*map(_changed, arms))
            known = {_text(one) for one in self.reads(condition, sure=True) if not _names(one) & changed}
        return any(
            isinstance(one, c_ast.FuncCall) or _text(one) not in known for arm in arms for one in self.reads(arm)
        )

    def _stores(self, node: Any) -> bool:
        """Whether code may write to memory."""
        match node:
            case c_ast.Assignment(lvalue=target):
                written = self._in_memory(target)
            case c_ast.UnaryOp(op=op, expr=target) if op in _CHANGES:
                written = self._in_memory(target)
            case c_ast.FuncCall(name=c_ast.ID(name=name)):
                written = name in self._functions
            case _:
                written = False
        return written or any(self._stores(child) for _, child in node.children())

    def _in_memory(self, target: Any) -> bool:
        return not isinstance(target, c_ast.ID) or target.name in self._own

    def reads(self, node: Any, *, sure: bool = False) -> Iterator[Any]:
        """What code reads of memory, and its calls of functions of the file that do. `sure`: by an expression whatever
        the data are."""
        parts = [child for _, child in node.children()]
        match node:
            case c_ast.ID(name=name) if name in self._own:
                yield node
            case c_ast.ArrayRef() | c_ast.StructRef():
                yield node
                parts = _subscripts(node)
            case c_ast.UnaryOp(op="*"):
                yield node
            case c_ast.UnaryOp(op="&", expr=target):
                parts = _subscripts(target)
            case c_ast.UnaryOp(op="sizeof"):
                parts = []
            case c_ast.Assignment(op="=", lvalue=target, rvalue=value):
                parts = [*_subscripts(target), value]
            case c_ast.Decl(init=value):
                parts = [] if value is None else [value]
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name in getattr(self, "_reading", ()):
                yield node
            case c_ast.TernaryOp() | c_ast.BinaryOp(op="&&" | "||") if sure:
                parts = parts[:1]
        for part in parts:
            yield from self.reads(part, sure=sure)


def _choice(node: Any) -> tuple[Any, list[Any]]:
    """A condition and what runs under it; nothing where a node is none."""
    match node:
        case c_ast.If(cond=condition, iftrue=then, iffalse=otherwise):
            return condition, [arm for arm in (then, otherwise) if arm is not None]
        case c_ast.TernaryOp(cond=condition, iftrue=then, iffalse=otherwise):
            return condition, [then, otherwise]
        case c_ast.BinaryOp(op="&&" | "||", left=condition, right=right):
            return condition, [right]
    return None, []


def _subscripts(target: Any) -> list[Any]:
    """What is computed for the place of an element or a member."""
    match target:
        case c_ast.ArrayRef(name=array, subscript=subscript):
            return [*_subscripts(array), subscript]
        case c_ast.StructRef(name=structure):
            return _subscripts(structure)
        case c_ast.ID():
            return []
    return [child for _, child in target.children()]


def _every(node: Any) -> Iterator[Any]:
    yield node
    for _, child in node.children():
        yield from _every(child)


def _loops(node: Any) -> Iterator[Any]:
    return (one for one in _every(node) if isinstance(one, _LOOPS))


def _called(node: Any) -> set[str]:
    """The functions that code calls by name."""
    return {one.name.name for one in _every(node) if isinstance(one, c_ast.FuncCall) and isinstance(one.name, c_ast.ID)}


def _names(node: Any) -> frozenset[str]:
    return frozenset(one.name for one in _every(node) if isinstance(one, c_ast.ID))


def _text(node: Any) -> str:
    return str(CGenerator().visit(node))


def _only(node: Any) -> Any:
    """The statement that is all of a block."""
    while isinstance(node, c_ast.Compound) and len(node.block_items or ()) == 1:
        node = node.block_items[0]
    return node


def _changed(node: Any) -> frozenset[str]:
    """The variables that code sets, but for counters of loops inside that begin at a number: written out, they are
    numbers."""
    found: set[str] = set()
    for one in _every(node):
        match one:
            case c_ast.Assignment(lvalue=c_ast.ID(name=name)):
                found.add(name)
            case c_ast.UnaryOp(op=op, expr=c_ast.ID(name=name)) if op in _CHANGES:
                found.add(name)
            case c_ast.Decl(name=name):
                found.add(name)
    return frozenset(found - {counter for loop in _loops(node) if loop is not node and (counter := _counter(loop))})


def _counter(loop: Any) -> str | None:
    """The variable that a loop declares and begins at a number; None of other loops."""
    match loop:
        case c_ast.For(init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first)])) if _number(first) is not None:
            return str(name)
    return None


def _number(node: Any) -> int | None:
    match node:
        case c_ast.Constant(type="int", value=value):
            return int(value, 0)
        case c_ast.UnaryOp(op="-", expr=operand):
            inner = _number(operand)
            return None if inner is None else -inner
    return None


def _short(node: Any) -> bool:
    """Whether all loops in some code may be short ones."""
    return all(_may_be_short(loop) for loop in _loops(node))


def _may_be_short(loop: Any) -> bool:
    """Whether a loop may have as few iterations as compilers write out: not one that counts far from number to number
    by ones."""
    match loop:
        case c_ast.For(
            init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first)]),
            cond=c_ast.BinaryOp(op="<" | "<=", left=c_ast.ID(name=tested), right=last),
            next=c_ast.UnaryOp(op="++" | "p++", expr=c_ast.ID(name=counted)),
        ) if name == tested == counted:
            begin, end = _number(first), _number(last)
            return begin is None or end is None or end - begin <= _MOST_UNROLLED
    return True
