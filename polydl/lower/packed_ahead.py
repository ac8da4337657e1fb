"""Operands packed ahead of time: the function that the user calls once, and what a run does with its copy.

    void f_pack(const float *B);       make the copy, or bring it up to date; B is the address that f will be given
    void f_pack_free(const float *B);  give its memory back

A run looks for the copy of the array at the address that it was given. Without one it packs for itself, as if nothing
had been said: the copy only saves time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from polydl.kernels.microkernel import environment
from polydl.lower.ast import Writer
from polydl.lower.cexpr import Helpers
from polydl.lower.cprint import lines
from polydl.lower.ctree import Assign, Block, Cast, Declare, Evaluate, If, Int, Invoke, Item, Name, Node, Unary
from polydl.lower.instance import Names, Place
from polydl.lower.marks import COPIED, PARALLEL
from polydl.lower.packing_plan import PackCall
from polydl.model import isl
from polydl.model.isl.trees import add_loop, add_mark, tree_of
from polydl.model.scop import Scop
from polydl.model.types import ElementType


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

    def text(self, scop: Scop, names: Names, helpers: Helpers) -> str:
        """File-scope C: the functions."""
        array = self.pack.operand.array
        linear = replace(scop.arrays[array], name="polydl_from", linear=True, behind=0)
        inside = replace(scop, arrays={**scop.arrays, array: linear})
        code = Writer(inside, names, helpers, {self.pack.name: self.printer}).write(_tree(self.pack))
        return (
            environment()
            .get_template("ahead.c.j2")
            .render(
                function=self.pack.pack.function,
                ctype=self.pack.operand.element.c,
                word=self.element.c,
                array=array,
                buffer=self.buffer,
                bytes=self.bytes,
                lines="\n".join(lines(code, 1)),
                of=scop.function,
            )
        )

    def before(self) -> Node:
        """Code of the region before the nest: the copy, or one made now."""
        buffer, given = Name(self.buffer), Unary("&", Item(self.pack.operand.array, (Int(0),)))
        fill = Invoke(f"{self.buffer}_fill", (Cast(f"const {self.pack.operand.element.c} *", given), Name(self.own)))
        found = Invoke(f"{self.buffer}_find", (given,))
        make = Block((Evaluate(fill), Assign(buffer, "=", Name(self.own))))
        return Block((Declare(f"const {self.element.c}", ((f"*{self.buffer}", found),)), If(Unary("!", buffer), make)))

    def call(self) -> str:
        """The statement that a user would write before the first run."""
        return f"{self.pack.pack.function}((const {self.pack.operand.element.c} *)&{self.pack.operand.array}[0]);"


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
