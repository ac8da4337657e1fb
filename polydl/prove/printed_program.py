"""The printed C as it is read back: statements in nested loops over neutral names, with their accesses and order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from itertools import product
from typing import Any

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.prove.integers import Affine, with_choices


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: elements from the beginning of an array or a buffer."""

    base: str
    offset: Affine


@dataclass(frozen=True, slots=True)
class Bounds:
    """The entries `first <= p < last` of a segment of other arrays."""

    name: str
    """What the printed code calls the first of them."""
    first: str
    """C, in terms of integers and of elements of arrays."""
    last: str
    values: tuple[tuple[str, Affine], ...]
    """The integers, by their names."""
    arrays: frozenset[str]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the generated code's own."""

    name: str
    own: bool
    """One for each thread."""
    start: int
    """Bytes from the beginning of its part of the memory."""
    element: int
    """Bytes per element."""
    behind: tuple[str, ...] = ()
    """Arrays whose sizes are known at run time alone, which lie between there and its beginning, in this order."""


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that run a block together, and share out loops in it."""

    begin: int
    """Places of the time vectors outside of the block."""
    line: int


@dataclass(frozen=True, slots=True)
class ConcurrentLoop:
    """A loop of the printed program whose iterations may run at the same time."""

    number: int
    times: tuple[int, ...]
    """Positions in the time vectors of its (collapsed) variables."""
    kind: str
    """`parallel`, `vector`."""
    private: frozenset[str] = frozenset()
    """Scalars of which each thread (lane) has its own."""
    reduction: frozenset[str] = frozenset()
    line: int = 0
    team: Team | None = None
    """Whose threads share it out; None: threads are started for it, and wait for each other at its end."""
    stays: bool = False
    """Of a team: a thread has the same iterations each time that it comes to the loop."""
    reads_first: bool = False
    """Of a row: its columns run in the order of the iterations, and those that run together read before they write."""


@dataclass(frozen=True, slots=True)
class Row:
    """The loops that a row stands for, or one of the loops of a function."""

    loops: tuple[tuple[str, Affine, Affine | None], ...]
    """Name, the value in the first column, and extent (None: any) of each, outermost first."""
    back: bool = False
    """They count downwards."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What a marker in the text claims about the instance of the next statement; the proof checks it."""

    statement: str
    iterators: tuple[Affine, ...]
    rows: tuple[Row, ...] = ()
    """Of rows: `iterators` use the names of their loops."""
    columns: tuple[Affine, ...] = ()
    """Of each row the number of a column, from 0."""


WRITES = ("copy", "zeros", "sums")
"""Kinds of statements that fill buffers."""


@dataclass(slots=True)
class Printed:
    """One statement of the printed program."""

    number: int
    depth: int
    """Loops `i0` … around it, those inside of a kernel included."""
    domain: isl.Set
    """{ T[i0, …] }."""
    time: tuple[Affine, ...]
    loops: tuple[ConcurrentLoop, ...]
    kind: str
    """`assignment`, `product` (a kernel's), `copy` (into a buffer), `zeros` and `sums` (into one as well: what fills up
    words, and sums of columns), `start` (a kernel's: where its sums start from those), `kept` (as it was
    written)."""
    op: str
    value: Any
    """The symbolic value (polydl.prove.symbolic_values); of a product its factors."""
    target: Pointer | None
    """None: it stays in a register."""
    hint: Hint | None
    line: int
    step: int | None = None
    """Statements of one step of a row, or of one call of a kernel, share a number: they store at its end."""
    call: int = 0
    """Places of `time` before those of the call."""
    lanes: bool = False
    """Of a row."""
    parts: Mapping[str, Affine] = field(default_factory=dict)
    """By array of which a part is in memory where the part begins, as a mark in the text claims: the memory's first
    element is this one. Addresses are those in the array."""

    touches: tuple[tuple[str, bool, isl.Map], ...] = ()
    """Of a statement that is kept as it was written: arrays, whether it may write them, and { T[i…] -> [element] }."""

    @property
    def name(self) -> str:
        return f"T{self.number}"


MOST_SIZES = 48
"""Different sizes of one function's calls that are all looked at; of more only some."""


@dataclass(slots=True)
class Program:
    """The printed program."""

    statements: list[Printed] = field(default_factory=list)
    waits: list[Printed] = field(default_factory=list)
    """Where the threads of teams wait for each other."""
    buffers: dict[str, Buffer] = field(default_factory=dict)
    parts: dict[str, Buffer] = field(default_factory=dict)
    """By array where the part of it lies that is in memory at a time."""
    scratch: dict[str, Buffer] = field(default_factory=dict)
    """Where the program's own scratch arrays lie."""
    sizes: dict[str, Affine] = field(default_factory=dict)
    """Bytes of those of them whose size is known at run time alone, at least."""
    memory: dict[bool, int] = field(default_factory=dict)
    """Bytes of the shared copies (False), without those of `sizes`, and of each thread's own (True)."""
    trusted: dict[str, None] = field(default_factory=dict)
    """What is taken for granted, in the order of its first use."""
    uses: dict[Any, set[tuple[int, ...]]] = field(default_factory=dict)
    """Generated functions (the contract of a kernel or of a copy, the name of a row, what states its meaning) and with
    which sizes they are called, `MOST_SIZES` at most."""
    words: dict[str, Any] = field(default_factory=dict)
    """Of buffers with converted elements what they are (polydl.prove.word_copies)."""
    often: set[Any] = field(default_factory=set)
    """Those of them that are called with more sizes."""

    def use(self, function: Any, depth: int, constraints: list[str], sizes: tuple[Affine, ...]) -> None:
        """Note a call: its sizes for every value of the loops around it."""
        known = self.uses.setdefault(function, set())
        if not any(size.terms for size in sizes):
            known.add(tuple(size.constant for size in sizes))
            return
        outputs = [f"o{k}" for k in range(len(sizes))]
        formula = " and ".join([*(f"{o} = {size}" for o, size in zip(outputs, sizes, strict=True)), *constraints])
        left = isl.without_parameters(map_of(f"[{dims(depth)}] -> [{', '.join(outputs)}]", formula).range())
        every = _every(left, len(sizes))
        known |= _some(left, len(sizes)) if every is None else every
        if every is None:
            self.often.add(function)


def _every(sizes: isl.Set, count: int) -> set[tuple[int, ...]] | None:
    """All of at most `MOST_SIZES` sizes; None where there are more."""
    found: set[tuple[int, ...]] = set()
    if any(isl.least(sizes, d) is None or isl.greatest(sizes, d) is None for d in range(count)):
        if not sizes.is_empty():
            return None
    while not sizes.is_empty():
        if len(found) == MOST_SIZES:
            return None
        found.add(isl.lex_extreme(sizes))
        sizes = sizes.subtract(isl.Set(f"{{ [{', '.join(map(str, isl.lex_extreme(sizes)))}] }}"))
    return found


def _some(sizes: isl.Set, count: int) -> set[tuple[int, ...]]:
    """Some of more than `MOST_SIZES` sizes: the least, the greatest and those in the middle. A row may be of any number
    of columns below none, where a loop has no iteration."""
    values: list[list[int]] = []
    for d in range(count):
        low, high = isl.least(sizes, d), isl.greatest(sizes, d)
        first = low if low is not None else min(0, high or 0) - 2 * MOST_SIZES
        last = high if high is not None else max(0, first) + 2 * MOST_SIZES
        values.append(sorted({first, (first + last) // 2, last, *(() if low is not None else (-1, 0))}))
    points = product(*values)
    return {p for p in points if not sizes.intersect(isl.Set(f"{{ [{', '.join(map(str, p))}] }}")).is_empty()}


_PARAMETER = re.compile(r"\bp_(\w+)")


def map_of(head: str, formula: str) -> isl.Map:
    """{ head : formula }, in which parameters are called `p_n`, since C's names may be words of isl; the relation has
    their own names."""
    text = f"{{ {head} : {with_choices(formula)} }}"
    names = sorted(set(_PARAMETER.findall(text)))
    before = f"[{', '.join(f'p_{name}' for name in names)}] -> " if names else ""
    return isl.renamed(isl.Map(before + text), {f"p_{name}": name for name in names})


def dims(depth: int) -> str:
    return ", ".join(f"i{d}" for d in range(depth))


def domain(name: str, depth: int, constraints: list[str]) -> isl.Set:
    """{ name[i0, …] : constraints }."""
    return map_of(f"{name}[{dims(depth)}] -> []", " and ".join(constraints) or "true").domain().coalesce()


def value_map(statement: Printed, values: tuple[Affine, ...], target: str = "") -> isl.Map:
    """{ T[i0, …] -> target[values] } on the statement's domain."""
    outputs = [f"o{k}" for k in range(len(values))]
    formula = " and ".join(f"{o} = {v}" for o, v in zip(outputs, values, strict=True)) or "true"
    head = f"{statement.name}[{dims(statement.depth)}] -> {target}[{', '.join(outputs)}]"
    return map_of(head, formula).intersect_domain(statement.domain)
