"""Constant operands packed ahead of time: functions that fill memory of the caller once, and a run that reads it.

    size_t f_pack_bytes(void);                          how much memory the copies take
    void f_pack(const float *W, const float *V, void *memory);      make them, or bring them up to date
    void f_packed(…, const void *memory);               f(…) that reads them, in any number of threads

`f` itself stays as it is, and packs in each run. What `f_packed` is given reaches the region through a variable of the
calling thread, which is set for the time of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from polydl.base.records import dataclass
from polydl.kernels.microkernel import environment
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.cprint import lines
from polydl.lower.ctree import (
    Assign,
    Block,
    Cast,
    Declare,
    Evaluate,
    If,
    Int,
    Invoke,
    Item,
    Name,
    Node,
    Raw,
    Text,
    Unary,
)  # fmt: skip
from polydl.lower.instance import Names, Place
from polydl.lower.marks import COPIED, PARALLEL
from polydl.lower.packing_plan import PackCall
from polydl.model import isl
from polydl.model.isl.trees import add_loop, add_mark, tree_of
from polydl.model.scop import Assignment, Scop, Storage
from polydl.model.types import ElementType
from polydl.schedule.tree import Sequence as InOrder
from polydl.schedule.tree import kernels, own_statements, summed_cut

_ALIGNMENT = 64
"""Bytes between copies: vectors of whole cache lines."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """An operand that is packed ahead of time."""

    pack: PackCall
    element: ElementType
    """Of the copy's words."""
    printer: Callable[[Place], Node]
    """Prints a panel's copy, from the operand to `buffer`."""
    buffer: str
    """C name of the pointer that the microkernel reads through."""
    own: str
    """C name of the run's own memory, for when there is no copy."""
    bytes: int

    @property
    def array(self) -> str:
        """The operand's."""
        return self.pack.operand.array

    def _filling(self, scop: Scop) -> str:
        """C name of the function that makes the copy."""
        return f"{self.buffer}_{scop.function}"

    def fill(self, scop: Scop, names: Names, helpers: Helpers) -> dict[str, str]:
        """The function that makes the copy, for the template."""
        linear = replace(scop.arrays[self.array], name="polydl_from", linear=True, behind=0)
        inside = replace(scop, arrays={**scop.arrays, self.array: linear})
        code = Writer(inside, names, helpers, {self.pack.name: self.printer}).write(_tree(self.pack))
        return {
            "ctype": self.pack.operand.element.c,
            "word": self.element.c,
            "buffer": self.buffer,
            "function": self._filling(scop),
            "lines": "\n".join(lines(code, 1)),
        }

    def before(self, scop: Scop, offset: int) -> Node:
        """Code of the region before the nest: the copy that lies at a place of the caller's memory, or one made now."""
        buffer, given = Name(self.buffer), Unary("&", Item(self.array, (Int(0),)))
        fill = Invoke(self._filling(scop), (Cast(f"const {self.pack.operand.element.c} *", given), Name(self.own)))
        word = f"const {self.element.c}"
        packed = packed_name(scop)
        found = Text(f"{packed} ? ({word} *)({packed} + {offset}) : 0")
        make = Block((Evaluate(fill), Assign(buffer, "=", Name(self.own))))
        return Block((Declare(word, ((f"*{self.buffer}", found),)), If(Unary("!", buffer), make)))


@dataclass(frozen=True, slots=True)
class PackedAhead:
    """Texts for all operands of a program that are packed ahead of time."""

    functions: str
    """File-scope C: the functions that pack."""
    run: str
    """File-scope C: the function that runs with packed operands, which needs the program's own."""
    prepare: tuple[str, ...]
    """What a user would do before the first run, for all runs of this thread, as statements."""
    arrays: tuple[str, ...]
    """What the function that packs is given, in order: parameters in theirs, then arrays of the file by name."""


@dataclass(frozen=True, slots=True)
class Derived:
    """Parts of a program that compute from constants alone, such as sums of the columns of weights."""

    parts: frozenset[int] = frozenset()
    """Their places in the tree."""
    read: tuple[str, ...] = ()
    """The constant arrays that they read."""
    made: tuple[str, ...] = ()
    """The scratch arrays that they fill, which nothing else writes."""


def derived(scop: Scop, tree: InOrder) -> Derived:
    """The parts whose results the function that packs can make once; none where no operand is packed ahead of time."""
    uses = [kernel.use for kernel in kernels(tree)]
    constant = {use.operand(pack.operand).array for use in uses for pack in use.packs if pack.function}
    if not constant or scop.parameters:
        return Derived()
    caller = (Storage.PARAMETER, Storage.GLOBAL)
    constant |= {name for name in scop.constants if scop.arrays[name].storage in caller}
    plain = {
        place: own_statements(part)
        for place, part in enumerate(tree.children)
        if not any(True for _ in kernels(part)) and summed_cut(part) is None
    }
    while True:
        inside = {name for names in plain.values() for name in names}
        written = {a.array for s in scop.statements if s.name not in inside for a in s.accesses if a.write}
        made = {
            name
            for name, array in scop.arrays.items()
            if array.storage is Storage.SCRATCH and array.layout.size is not None and name not in written
        }
        held = {place: names for place, names in plain.items() if _from_constants(scop, names, constant, made)}
        if len(held) == len(plain):
            break
        plain = held
    accesses = [a for name in sorted(inside) for a in scop.statement(name).accesses]
    return Derived(
        frozenset(plain),
        tuple(sorted({a.array for a in accesses if a.array in constant})),
        tuple(sorted({a.array for a in accesses if a.write})),
    )


def _from_constants(scop: Scop, names: Collection[str], constant: Collection[str], made: Collection[str]) -> bool:
    """Whether statements read constants and what is `made` of these alone, and write the latter."""
    own = [scop.statement(name) for name in names]
    accesses = [a for s in own for a in s.accesses]
    return all(isinstance(s.body, Assignment) for s in own) and all(
        a.array in made or (a.array in constant and not a.write) for a in accesses
    )


def packed_name(scop: Scop) -> str:
    """C name of the variable that says where the copies are."""
    return f"polydl_packed_{scop.function}"


def offsets(sizes: Sequence[int]) -> list[int]:
    """Bytes from the begin of the caller's memory to each piece of it, and to the end of all."""
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + -(-size // _ALIGNMENT) * _ALIGNMENT)
    return ends


def sizes(scop: Scop, ahead: Sequence[Ahead], more: Derived) -> list[int]:
    """Bytes of the copies, then of what is derived from constants."""
    arrays = [scop.arrays[name] for name in more.made]
    return [*(one.bytes for one in ahead), *((array.layout.size or 0) * array.element.bytes for array in arrays)]


def given_or_own(scop: Scop, ahead: Sequence[Ahead], more: Derived) -> list[Node]:
    """Where what is derived from constants lies: in the caller's memory, or in the run's own."""
    packed, places = packed_name(scop), offsets(sizes(scop, ahead, more))[len(ahead) :]
    lines_ = []
    for name, place in zip(more.made, places, strict=False):
        element = scop.arrays[name].element.c
        lines_.append(f"{element} *const {name} = {packed} ? ({element} *)({packed} + {place}) : {name}_own;")
    return [Raw(tuple(lines_))] if lines_ else []


def texts(
    scop: Scop, ahead: Sequence[Ahead], more: Derived, code: Sequence[Node], names: Names, helpers: Helpers
) -> PackedAhead:
    """The C beside the region. Several nests that read one array have a copy each. `code`: of the parts `more`."""
    header, places = scop.region.header, offsets(sizes(scop, ahead, more))
    assert header is not None, "pack_ahead asks for one"
    order = [name for name, _ in header.parameters]
    types = {one.array: one.pack.operand.element.c for one in ahead}
    types |= {name: scop.arrays[name].element.c for name in more.read}
    arrays = {name: types[name] for name in (*order, *sorted(types.keys() - set(order))) if name in types}
    template = environment().get_template("ahead.c.j2")
    given: dict[str, object] = {
        "function": scop.function,
        "arrays": [{"name": array, "ctype": ctype} for array, ctype in arrays.items()],
        "fills": [
            one.fill(scop, names, helpers) | {"array": one.array, "at": str(at)}
            for one, at in zip(ahead, places, strict=False)
        ],
        "packed": packed_name(scop),
        "derived": _making(scop, more, code),
        "made": _made(scop, more, places[len(ahead) :]),
        "bytes": places[-1] + _ALIGNMENT - 1,
        "prototype": header.prototype,
        "result": header.result,
        "parameters": ", ".join([*(declaration for _, declaration in header.parameters), "const void *polydl_memory"]),
        "arguments": ", ".join(name for name, _ in header.parameters),
    }  # fmt: skip
    addresses = [f"(const {ctype} *)&{array}[0]" for array, ctype in arrays.items()]
    prepare = (
        f"static char polydl_memory[{places[-1] + _ALIGNMENT - 1}];",
        f"{scop.function}_pack({', '.join(addresses)}, polydl_memory);",
        f"{packed_name(scop)} = polydl_memory + (64 - (uintptr_t)polydl_memory % 64) % 64;",
    )
    return PackedAhead(
        template.render(given, part="functions"), template.render(given, part="run"), prepare, tuple(arrays)
    )


def _making(scop: Scop, more: Derived, code: Sequence[Node]) -> str:
    """The function that derives from constants: its head and body; empty where there is nothing to do."""
    if not more.made:
        return ""
    fixed = [guard for guard in scop.guards if not guard.macro]
    given = [f"const long {guard.name}" for guard in fixed]
    given += [scop.arrays[name].declaration for name in more.read]
    given += [f"{scop.arrays[name].element.c} *const {name}" for name in more.made]
    unused = [f"    (void){name};" for name in (*(guard.name for guard in fixed), *more.read)]
    body = "\n".join([*unused, *lines(Block(tuple(code)), 1)])
    return f"polydl_derived_{scop.function}({', '.join(given)})\n{{\n{body}\n}}"


def _made(scop: Scop, more: Derived, places: Sequence[int]) -> str:
    """The call of that function."""
    if not more.made:
        return ""
    given = [str(guard.value) for guard in scop.guards if not guard.macro]
    given += [f"(void *){name}" for name in more.read]
    given += [f"(void *)(polydl_begin + {place})" for _, place in zip(more.made, places, strict=False)]
    return f"polydl_derived_{scop.function}({', '.join(given)});"


def _tree(pack: PackCall) -> isl.Schedule:
    """A schedule tree of one instance per panel, shared among the threads."""
    node = tree_of(pack.domain)
    counters = isl.coordinates(pack.domain)
    if counters:
        node = add_mark(node, PARALLEL)
        for counter in counters:
            node = add_loop(node, counter, pack.domain)
        node = add_mark(node, COPIED)
    return node.get_schedule()
