"""The printed C as it is read back: statements in nested loops over neutral names, with their accesses and order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from polydl.model import isl
from polydl.prove.integers import Affine, with_choices


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address: elements from the beginning of an array or a buffer."""

    base: str
    offset: Affine


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


@dataclass(frozen=True, slots=True)
class Hint:
    """What a marker in the text claims about the instance of the next statement; the proof checks it."""

    statement: str
    iterators: tuple[Affine, ...]
    local: tuple[tuple[str, Affine, Affine | None], ...] = ()
    """Of a row: name, first value and extent (None: any) of each loop that it stands for; `iterators` use the names."""
    column: str = ""
    """Of a row: the loop that counts its columns."""


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
    """`assignment`, `product` (a kernel's), `copy` (into a buffer)."""
    op: str
    value: Any
    """The symbolic value (polydl.prove.symbols); of a product its factors."""
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

    @property
    def name(self) -> str:
        return f"T{self.number}"


MOST_SIZES = 48
"""Different sizes of one function's calls that are looked at."""


@dataclass(slots=True)
class Program:
    """The printed program."""

    statements: list[Printed] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    scratch: dict[str, Buffer] = field(default_factory=dict)
    """Where the program's own scratch arrays lie."""
    memory: dict[bool, int] = field(default_factory=dict)
    """Bytes of the shared copies (False) and of each thread's own (True)."""
    trusted: dict[str, None] = field(default_factory=dict)
    """What is taken for granted, in the order of its first use."""
    uses: dict[Any, set[tuple[int, ...]] | None] = field(default_factory=dict)
    """Generated functions (the contract of a kernel or of a copy, the name of a row, what states its meaning) and with
    which sizes they are called; None: with too many to look at each."""

    def use(self, function: Any, depth: int, constraints: list[str], sizes: tuple[Affine, ...]) -> None:
        """Note a call: its sizes for every value of the loops around it."""
        known = self.uses.setdefault(function, set())
        if known is None:
            return
        if not any(size.terms for size in sizes):
            known.add(tuple(size.constant for size in sizes))
            return
        outputs = [f"o{k}" for k in range(len(sizes))]
        formula = " and ".join([*(f"{o} = {size}" for o, size in zip(outputs, sizes, strict=True)), *constraints])
        left = isl.Map(f"{{ [{dims(depth)}] -> [{', '.join(outputs)}] : {with_choices(formula)} }}").range()
        while not left.is_empty():
            if len(known) == MOST_SIZES:
                self.uses[function] = None
                return
            size = isl.lex_extreme(left)
            known.add(size)
            left = left.subtract(isl.Set(f"{{ [{', '.join(map(str, size))}] }}"))


def dims(depth: int) -> str:
    return ", ".join(f"i{d}" for d in range(depth))


def domain(name: str, depth: int, constraints: list[str]) -> isl.Set:
    """{ name[i0, …] : constraints }."""
    condition = " and ".join(constraints) or "true"
    return isl.Set(f"{{ {name}[{dims(depth)}] : {with_choices(condition)} }}").coalesce()


def value_map(statement: Printed, values: tuple[Affine, ...], target: str = "") -> isl.Map:
    """{ T[i0, …] -> target[values] } on the statement's domain."""
    outputs = [f"o{k}" for k in range(len(values))]
    formula = " and ".join(f"{o} = {v}" for o, v in zip(outputs, values, strict=True)) or "true"
    head = f"{statement.name}[{dims(statement.depth)}] -> {target}[{', '.join(outputs)}]"
    return isl.Map(f"{{ {head} : {with_choices(formula)} }}").intersect_domain(statement.domain)
