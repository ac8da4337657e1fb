"""Constant operands packed ahead of time: functions that fill memory of the caller once, and a run that reads it.

    size_t f_pack_bytes(void);                          how much memory the copies take
    void f_pack(const float *W, const float *V, void *memory);      make them, or bring them up to date
    void f_packed(…, const void *memory);               f(…) that reads them, in any number of threads

`f` itself stays as it is, and packs in each run. What `f_packed` is given reaches the region through a variable of the
calling thread, which is set for the time of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polydl.kernels.microkernel import environment
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.cprint import lines
from polydl.lower.ctree import Assign, Block, Cast, Declare, Evaluate, If, Int, Invoke, Item, Name, Node, Text, Unary
from polydl.lower.instance import Names, Place
from polydl.lower.marks import COPIED, PARALLEL
from polydl.lower.packing_plan import PackCall
from polydl.model import isl
from polydl.model.isl.trees import add_loop, add_mark, tree_of
from polydl.model.scop import Scop
from polydl.model.types import ElementType

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
        packed = _packed(scop)
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


def _packed(scop: Scop) -> str:
    """C name of the variable that says where the copies are."""
    return f"polydl_packed_{scop.function}"


def offsets(ahead: Sequence[Ahead]) -> list[int]:
    """Bytes from the begin of the caller's memory to each copy, and to the end of all."""
    ends = [0]
    for one in ahead:
        ends.append(ends[-1] + -(-one.bytes // _ALIGNMENT) * _ALIGNMENT)
    return ends


def texts(scop: Scop, ahead: Sequence[Ahead], names: Names, helpers: Helpers) -> PackedAhead:
    """The C beside the region. Several nests that read one array have a copy each."""
    header, places = scop.region.header, offsets(ahead)
    assert header is not None, "pack_ahead asks for one"
    order = [name for name, _ in header.parameters]
    types = {one.array: one.pack.operand.element.c for one in ahead}
    arrays = {name: types[name] for name in (*order, *sorted(types.keys() - set(order))) if name in types}
    template = environment().get_template("ahead.c.j2")
    given: dict[str, object] = {
        "function": scop.function,
        "arrays": [{"name": array, "ctype": ctype} for array, ctype in arrays.items()],
        "fills": [
            one.fill(scop, names, helpers) | {"array": one.array, "at": str(at)}
            for one, at in zip(ahead, places, strict=False)
        ],
        "packed": _packed(scop),
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
        f"{_packed(scop)} = polydl_memory + (64 - (uintptr_t)polydl_memory % 64) % 64;",
    )
    return PackedAhead(
        template.render(given, part="functions"), template.render(given, part="run"), prepare, tuple(arrays)
    )


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
