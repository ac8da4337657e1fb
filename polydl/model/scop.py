"""The polyhedral program: what the front end makes and every later stage reads. Frozen values only.

isl conventions: a statement's space is the named set tuple `S0[i, j, k]` whose dimensions carry the C names of
the loop variables; an array's space is the named tuple `A[a0, a1]`; a scalar is the 0-D tuple `alpha[]`.
Parameters carry their C names. isl objects are built through polydl.model.isl and never by pasting user names into
isl text, since C identifiers such as `min`, `mod` or `exists` are isl keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from pathlib import Path

from polydl.base import html
from polydl.base.errors import Span
from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.expr import Expr, Load, on_operands
from polydl.model.layout import NO_AXES, Layout, row_major
from polydl.model.types import ElementType


class Storage(Enum):
    """Where an array lives, which decides whether it may alias and whether it is live after the scop."""

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"
    """Declared in the function outside the region."""
    REGION = "region"
    """Declared inside the region: dead outside it; the output must declare it again (`Array.declaration`)."""
    SCRATCH = "scratch"
    """Made by a rewrite: nothing outside of the region knows it; the output reserves its memory, and parameters may say
    how much."""


@dataclass(frozen=True, slots=True)
class Members:
    """Members of one type in an array of structures, which is taken for one of a dimension more: the place in an
    element, in units of the type."""

    paths: tuple[str, ...]
    """By place, how the member there is written behind an element: `.x`, `.pos[1]`; empty where none of the type is."""
    bytes: int
    """sizeof the structure."""
    of: str = ""
    """The array of the program, where members of several types are used of it: those of the other types are arrays by
    other names. Empty where it has its own name."""

    def run(self, first: int, last: int) -> str | None:
        """`.pos` where the places from first to last are `.pos[0]`, `.pos[1]`, …; None for others."""
        start = self.paths[first] if 0 <= first <= last < len(self.paths) else ""
        if not start.endswith("[0]"):
            return None
        stem = start.removesuffix("[0]")
        wanted = tuple(f"{stem}[{k}]" for k in range(last - first + 1))
        return stem if self.paths[first : last + 1] == wanted else None


@dataclass(frozen=True, slots=True)
class PointedRows:
    """Of an array that is one of pointers to rows in the source (`float **A`): what the output may do where the rows do
    not lie one behind the other, as those of an array of two dimensions do."""

    first: int
    """The first row that the region reaches. The last one is the last of the array."""
    lengths: isl.PwAff | None
    """[row] -> { [elements] }: by the number of a row, how many of its first elements may be copied, as they are in
    front of the last one that is surely reached, and hold all that are. None where data decide what is reached, or the
    sizes have no values."""


@dataclass(frozen=True, slots=True)
class View:
    """A member of a structure that the region uses through a variable of its own, which the output declares."""

    name: str
    """Of the array or scalar, or of the parameter: `m_data`."""
    declaration: str
    """`float *m_data`, `const int m_rows`."""
    member: str
    """As it is written in the source: `m->data`."""
    value: str
    """What the variable is given: `m->data`, `m ? m->data : 0`, `&s->sum`."""
    root: str
    """The variable that the member is reached from."""
    root_declaration: str | None
    """`struct matrix *m`; None where it is global."""
    pointers: tuple[tuple[str, int | None], ...]
    """What the member is reached through (`m`; `c->m`), outermost first, each with the bytes of the structure that it
    points to, where they are known."""
    inside: tuple[int, int] | None = None
    """(offset, bytes) of what the structure itself holds, from what the last pointer points to, or from the root; None
    for a pointer to other memory and for a value that is only read."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array, or a scalar when `extents` is empty."""

    name: str
    element: ElementType
    extents: tuple[isl.PwAff | None, ...]
    """Elements per dimension, each a parametric PwAff on the scop's parameters (constant where sizes are known).
    Only the first may be None: unknown (`float A[][N]`, `float *p`); of a packed array each is."""
    storage: Storage
    declaration: str
    """C declaration usable as a function parameter, no trailing semicolon: `float A[restrict 300][200]`,
    `const float *restrict p`, `float alpha`. Macros are expanded; typedef names stay."""
    linear: bool = False
    """True when the source subscripts it as one linear array (`A[i*N + j]`, `*(p + i*N + j)`) and the dimensions
    were recovered: printed as `name[address]`, the address as `layout` has it."""
    behind: int = 0
    """Of a linear array how many of its last dimensions are subscripts of C behind the address: `p[i*N + j].x[k]`,
    `p[i*N + j][k]`. The address counts the elements that these make up together."""
    restrict: bool = False
    """No other pointer of the function reaches this memory (restrict, or not a pointer parameter at all)."""
    const: bool = False
    span: Span | None = None
    static: bool = False
    """Of the file alone: no pointer reaches it but where the file takes its address."""
    layout: Layout = NO_AXES
    """Where the elements lie; row-major over `extents` unless another one is given, which only a linear array may have:
    the subscripts of any other are C's."""
    members: Members | None = None
    """Of an array of structures: what its last subscript stands for."""
    rows: PointedRows | None = None
    """Of an array of pointers to rows: extents are as many elements as the region reaches."""

    def __post_init__(self) -> None:
        """Raises ValueError for a layout of another rank, or one that C's subscripts don't have."""
        if self.layout is NO_AXES:
            object.__setattr__(self, "layout", row_major([_known(extent) for extent in self.extents]))
        if self.layout.rank != len(self.extents):
            raise ValueError(f"{self.name} has {len(self.extents)} dimensions and a layout for {self.layout.rank}")
        if not self.linear and not self.layout.is_row_major:
            raise ValueError(f"{self.name} is subscripted as a C array, whose layout is row-major")

    @property
    def is_scalar(self) -> bool:
        return not self.extents

    @property
    def subscripts(self) -> int:
        """How many subscripts an element has in C, with the member of a structure counted as one."""
        return 1 + self.behind if self.linear else len(self.extents)

    @property
    def in_front(self) -> Array:
        """The array of what the address of a linear array counts, without the dimensions behind."""
        ahead = len(self.extents) - self.behind
        return replace(self, extents=self.extents[:ahead], layout=NO_AXES, behind=0, members=None)

    @property
    def spelled(self) -> str:
        """Its name in the program: arrays that are members of one structure have the same."""
        return (self.members.of if self.members is not None else "") or self.name

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Elements per dimension; None for a number that depends on parameters or is not known."""
        return tuple(_known(extent) for extent in self.extents)


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of a statement."""

    array: str
    write: bool
    relation: isl.Map
    """{ S[i…] -> A[a…] : i in the domain }, exact. Single-valued for an assignment; for a microkernel call it
    relates an outer iteration to every element the call touches."""
    span: Span | None = None
    exact: bool = True
    """False: data choose what is read (`expr.Gather`). The relation leads to every element that it may be, without end
    where nothing says how many elements there are."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target op value`. Compound assignments keep their operator; `x = x + e`, `x = e + x`, `x++` become `x += e`
    (likewise `*`, and `x = x - e` becomes `x -= e`), so that a reduction shows."""

    target: int
    """Index into `Statement.accesses` of the write. With op other than `=`, the read of the target is
    `accesses[target_read]`."""
    op: str
    """One of = += -= *= /= %= &= |= ^= <<= >>=."""
    value: Expr
    target_read: int | None = None
    """Index of the read access of the target for a compound assignment; None for `=`."""


@dataclass(frozen=True, slots=True)
class CallArgument:
    """An argument of a microkernel call."""

    text: str
    """C text with the outer iterators and parameters free, macros expanded: `&A[i][0]`, `K`, `64`."""
    array: str | None = None
    """The array the pointer argument points into; None for a value."""
    subscript: isl.MultiPwAff | None = None
    """{ S[outer…] -> A[a…] } the element pointed at, for a pointer argument."""
    value: isl.PwAff | None = None
    """{ S[outer…] -> [v] } for an integer argument affine in iterators and parameters; None when it is neither."""


@dataclass(frozen=True, slots=True)
class MicrokernelCall:
    """A statement that is a call of the user's microkernel; its loops only say what the call computes."""

    function: str
    arguments: tuple[CallArgument, ...]
    inner: tuple[Statement, ...]
    """The statements of the equivalent loops, at full depth (outer iterators, then the microkernel's loops)."""
    form: str
    """`call` (the call stands in the code) or `loops` (the loops stand in the code)."""


@dataclass(frozen=True, slots=True)
class BlackBox:
    """C code that is kept as it is written, because data decide what of it runs.

    It runs whole, once per iteration. Its accesses say what it may touch at most: its writes never surely replace a
    value, and it is no assignment to anybody who looks for one.
    """

    text: str
    """A C statement, macros expanded, in terms of `locals` and of the program's arrays and scalars."""
    locals: tuple[tuple[str, isl.PwAff | None], ...] = ()
    """Declarations that the text needs around it: `const int i` with its value { S[i…] -> [v] }, and `int k` without
    one for a variable that the text sets itself."""
    lanes: str = ""
    """Of a loop that may add up in another order: `text` so that it does, in vector lanes."""
    segment: Segment | None = None
    """Of a loop over a segment of other arrays that adds up."""
    entries: Entries | None = None
    """What a loop over a segment runs through, where that shows."""
    regroups: bool = False
    """Whether what `segment` says may be added up in another order."""
    ahead: str = ""
    """`lanes`, or `text` where there are none, so that it fetches rows of `fetched` ahead of their use."""
    fetched: tuple[str, ...] = ()
    """Arrays of which it reads rows that tables lead to."""


@dataclass(frozen=True, slots=True)
class Entries:
    """What a loop over `array[row] <= p < array[row + 1]` runs through."""

    array: str
    """Of integers, which the program does not write."""
    row: isl.PwAff
    """{ S[i…] -> [r] }"""


@dataclass(frozen=True, slots=True)
class Segment:
    """A loop over entries `first <= p < last` of arrays, bounds that are read from memory, which accumulates into
    elements that do not depend on p: as `for (p = ptr[i]; p < ptr[i + 1]; p++) y[i][j] += val[p] * x[idx[p]][j]`."""

    sum: Statement
    """What it accumulates, as one statement of loops with affine subscripts: the loops around, `entry`, those of
    `tables`, and the loops inside."""
    entry: str
    """The iterator of `sum` that counts the entries, from 0."""
    first: str
    """C, in terms of `BlackBox.locals`."""
    last: str
    """C, one past the last entry."""
    tables: Mapping[str, str]
    """By iterator of `sum` the array of integers that it stands for an element of: `idx` of `idx[p]`."""


Body = Assignment | MicrokernelCall | BlackBox


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its iteration domain."""

    name: str
    """`S0`, `S1`, … in textual order, unique in the scop."""
    iterators: tuple[str, ...]
    """C names of the surrounding loop variables, outermost first; the dimension names of `domain`. A microkernel
    call has the loops around the call only."""
    domain: isl.Set
    """{ S[i…] } exact, in the values that the C loop variables take."""
    position: tuple[int, ...]
    """Textual position at each depth, length len(iterators) + 1: with the iterators between them the 2d+1
    schedule (Feautrier/Cohen): (p0, ±i0, p1, ±i1, …, pd). Two statements share the loop at depth d exactly when
    position[:d + 1] agree."""
    descending: frozenset[str]
    """Iterators whose loop runs downwards: time is -i there."""
    accesses: tuple[Access, ...]
    """In evaluation order: reads, then the write."""
    body: Body
    span: Span

    @property
    def depth(self) -> int:
        return len(self.iterators)

    @property
    def target(self) -> Access:
        """What an assignment writes, or a sum over a segment."""
        if isinstance(self.body, Assignment):
            return self.accesses[self.body.target]
        assert isinstance(self.body, BlackBox) and self.body.segment is not None, "of others there may be several"
        (found,) = (access for access in self.accesses if access.write)
        return found


@dataclass(frozen=True, slots=True)
class Guard:
    """A value that was used at translation time; the output checks it and otherwise runs the original loops."""

    name: str
    """A macro or a function parameter as it is spelled in the source."""
    value: int
    macro: bool
    """True: a macro; False: checked by `if` at run time."""
    plain: bool = True
    """Of a macro: whether `#if` can evaluate it; a cast or an enumerator needs an `if`."""


@dataclass(frozen=True, slots=True)
class Header:
    """How a C function is declared."""

    prototype: str
    """`static void f(int n, const float x[restrict n])`."""
    result: str
    """The type of its value: `void`, `double`."""
    parameters: tuple[tuple[str, str], ...]
    """(name, declaration) of each."""


@dataclass(frozen=True, slots=True)
class Region:
    """Where a scop stands in its file, as offsets into `Source.text`."""

    start: int
    """First character of the code to replace (after the `#pragma scop` line, or the nest's first character)."""
    end: int
    """One past the last character to replace (before the `#pragma endscop` line, or after the nest)."""
    helpers: int
    """Start of the line at which file-scope helper code can be inserted: before the function definition."""
    declared_outside: tuple[str, ...] = ()
    """Declarations (`int i`) of names that the region uses, declared outside it in the function, and that are
    neither arrays, scalars read as data, nor parameters: loop variables, affine temporaries and, with their values,
    constants (`int k = 3`)."""
    begun: Mapping[str, isl.PwAff] = field(default_factory=dict)
    """Those of them that have a value where the region begins, which its loops count on, with the value, a function of
    the parameters: `i` of `int i = 0; while (i < n)`."""
    header: Header | None = None
    """Of the function around it; None of one that is declared in the old style, or whose value is a pointer."""

    @property
    def starts(self) -> dict[str, int]:
        """Those of `begun` whose value is one number."""
        known = {name: _known(value) for name, value in self.begun.items()}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Source:
    """A C file as it was given."""

    path: Path
    text: str
    """Decoded with utf-8 and surrogateescape, newlines untouched: encodes back to the same bytes."""
    preprocessor_flags: tuple[str, ...] = ()
    """-D, -I and -U flags, to be given to every compilation."""
    declared: frozenset[str] = frozenset()
    """What it and its own headers declare at file scope: functions, objects, types, tags."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A pragma that promises that iterations of a loop don't depend on each other."""

    pragma: str
    """As the user wrote it, with single spaces."""
    span: Span
    depth: int
    """Number of loops around the promised one."""
    loops: int
    """Number of nested loops that it is about (`collapse`)."""
    statements: frozenset[str]
    """Names of the statements inside."""
    private: frozenset[str]
    """Objects of which every iteration has one of its own: those declared inside, and those of the clauses."""


@dataclass(frozen=True, slots=True)
class IndexValues:
    """A subscript that data choose, made of values of arrays of integers: which of these make sense."""

    array: str
    """The array that is subscripted."""
    dimension: int
    """Of its subscripts."""
    factors: tuple[tuple[str, int], ...]
    """The subscript is the sum of these multiples of values, (array that holds the values, factor), …"""
    rest: isl.Set
    """{ [r] } … and of one of these numbers."""
    past: int = 0
    """1: the value may be one more, as the end of a loop over subscripts."""
    ordered: frozenset[str] = frozenset()
    """Arrays whose values are both ends of a loop over subscripts: they never decrease."""

    @property
    def holders(self) -> tuple[str, ...]:
        """The arrays that hold the values."""
        return tuple(name for name, _ in self.factors)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Segments that have no entry in common: entries `array[r] <= p < array[r + 1]` of other arrays, which the program
    writes.

    Relations of accesses to these arrays count whole segments in their first dimension: r stands for every entry of
    segment r. The output asks whether `array` never decreases, and otherwise runs the original loops.
    """

    array: str
    """Of integers, which the program does not write."""
    rows: isl.Set
    """{ [r] } the segments that the program writes to, or reads of what it writes."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file that computes a number from numbers."""

    parameters: tuple[ElementType, ...]
    value: Expr
    """What it returns; Load(i) is its parameter i."""
    element: ElementType
    """The type of that."""

    def of(self, arguments: Sequence[Expr]) -> Expr:
        """What it returns for arguments, each of the type of its parameter."""

        def given(one: Expr) -> Expr:
            return arguments[one.access] if isinstance(one, Load) else on_operands(one, given)

        return given(self.value)


_OF_ONE = 8
"""Accesses that a statement of a usual length has at most."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Scop:
    """A static control part."""

    function: str
    """Name of the C function that contains it."""
    span: Span
    source: Source
    region: Region
    parameters: tuple[str, ...]
    """Integer symbols left symbolic, i.e. without a value from the source, -D or --size."""
    context: isl.Set
    """Parameter set: what is known about the parameters (`assume`, array extents >= 0)."""
    arrays: Mapping[str, Array]
    statements: tuple[Statement, ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Every named integer with a value: function parameters from --size, macros from -D or the file."""
    guards: tuple[Guard, ...] = ()
    expansions: tuple[tuple[str, str], ...] = ()
    """Macros that are no integers, as they are used (`OP(polydl_0)`), each with its expansion as a C string literal."""
    conditions: Mapping[str, bool] = field(default_factory=dict)
    """Macros that conditions around declarations which the region uses (types, arrays, the function) test -> whether
    each was defined."""
    live_out: frozenset[str] = frozenset()
    """Arrays whose contents may be read after the scop: parameters, globals and locals, less `dead(...)`."""
    constants: frozenset[str] = frozenset()
    """Arrays that stay the same from run to run, as the user says; no statement writes them."""
    assumptions: tuple[str, ...] = ()
    """What was assumed and could not be checked, for people: 'A and B do not overlap (not restrict)'."""
    promises: tuple[Promise, ...] = ()
    """Where the user promises independent iterations. Dependences decide; what contradicts them is reported."""
    indices: tuple[IndexValues, ...] = ()
    """What arrays of integers hold that are made subscripts of."""
    ordered: tuple[Ordered, ...] = ()
    """What is counted in segments."""
    views: Mapping[str, View] = field(default_factory=dict)
    """By name, the arrays, scalars and parameters that are members of structures."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    """By name, the functions of the file that statements call and that are an expression of their parameters."""
    derived: frozenset[str] = frozenset()
    """Parameters that follow from others, as the context says: `half` of `int half = n / 2;`."""
    unsigned: frozenset[str] = frozenset()
    """Parameters whose type in C is unsigned and no narrower than `int`: what is computed of them would be, too."""
    symbolic: Scop | None = field(default=None, compare=False, repr=False)
    """The program with its sizes as parameters, of which this one was made by giving them values; None where it was
    not: it has none, or see `only_with_sizes`."""
    only_with_sizes: str = ""
    """Why its loops are a region only where sizes have values, for people; empty where they are one anyway."""
    fast_math: bool = False
    """Whether the user allows approximations of mathematical functions and of double arithmetic among floats."""
    long: str = ""
    """Long vectors that its code has beside the vectors of every output (`target.isa.LONG`); empty: none."""
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of arrays, at least one of them written, that may share memory for all that C says. The output asks whether
    what the program touches of them does (`model.touched`), and then runs the original loops."""

    @property
    def element(self) -> ElementType | None:
        """The floating-point type of most of what is written; None where none is."""
        written = [self.arrays[a.array].element for s in self.statements for a in s.accesses if a.write]
        floats = [element for element in written if element.is_float]
        return max(floats, key=lambda element: (floats.count(element), element.bytes), default=None)

    @property
    def weight(self) -> int:
        """Its statements, of which one with many accesses counts for several: what analyses take grows with both."""
        return sum(max(1, len(statement.accesses) // _OF_ONE) for statement in self.statements)

    def statement(self, name: str) -> Statement:
        """The statement called `name`. Raises KeyError."""
        for statement in self.statements:
            if statement.name == name:
                return statement
        raise KeyError(name)

    def __repr__(self) -> str:
        return f"<scop {self.function} ({self.span}): {', '.join(s.name for s in self.statements)}>"

    def _repr_html_(self) -> str:
        arrays = [
            (a.name, a.element.c, "".join(f"[{'' if e is None else _extent(e)}]" for e in a.extents), a.storage.value)
            for a in self.arrays.values()
        ]
        statements = [(s.name, ", ".join(s.iterators), str(s.domain)) for s in self.statements]
        sizes = ", ".join([*(f"{name} = {value}" for name, value in self.sizes.items()), *self.parameters])
        return html.block(
            f"{self.function} ({self.span})",
            html.line(f"sizes: {sizes}") if sizes else "",
            html.table(("array", "type", "extents", "storage"), arrays, total=len(arrays)),
            html.table(("statement", "loops", "domain"), statements, total=len(statements)),
            *(html.line(f"assumed: {assumption}") for assumption in self.assumptions),
        )


def _known(extent: isl.PwAff | None) -> int | None:
    """A number of elements that depends on no parameter."""
    value = extent.max_val() if extent is not None and extent.is_cst() else None
    return isl.to_int(value) if value is not None and value.is_int() else None


def _extent(value: isl.PwAff) -> str:
    """A number, or the expression in the parameters without isl's braces."""
    return str(value.max_val()) if value.is_cst() else str(value).rpartition("{")[2].strip(" }")


def without_scalar(scop: Scop, name: str) -> Scop:
    """The program without a scalar that no statement uses any more."""
    array, region = scop.arrays[name], scop.region
    if array.storage is Storage.LOCAL:
        # The original loops still use it.
        region = replace(region, declared_outside=(*region.declared_outside, f"{array.element.c} {name}"))
    arrays = {n: a for n, a in scop.arrays.items() if n != name}
    return replace(scop, arrays=arrays, live_out=scop.live_out - {name}, region=region)
