"""`s = fmaf(a, b, s)` as the sum that it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polydl.model.expr import Binary, Call, Load
from polydl.model.functions import FMA
from polydl.model.scop import Assignment, Scop, Statement
from polydl.model.types import F32, F64
from polydl.rewrite.rebuilt import Rebuilt
from polydl.rewrite.step import Step

_TYPES = {name: element for name, element in FMA.spellings.items() if element in (F32, F64)}
"""By function, the type that it computes in."""


@dataclass(frozen=True, slots=True)
class MultiplyAdd:
    """A fused multiplication and addition becomes a sum of products, which the compiler may fuse again.

    before:    s = fma(a, b, s)
    after:     s += a * b
    requires:  leave to reassociate, for the product may be rounded; all of the function's type
    """

    statements: tuple[str, ...]

    def broken(self, before: Scop, after: Scop) -> str | None:
        """See `polydl.rewrite.step.Rewrite`."""
        if any(_apart(before, before.statement(name)) is None for name in self.statements):
            return f"{', '.join(self.statements)}: not all of them add a product to themselves"
        same = after.statements == _made(before, self.statements).statements
        return None if same else f"more than {', '.join(self.statements)} was changed"

    def __str__(self) -> str:
        return f"{', '.join(self.statements)} adds a product"


def multiply_adds(scop: Scop) -> Iterator[Step]:
    """Write every accumulation by fma() as a sum (`MultiplyAdd`)."""
    names = tuple(s.name for s in scop.statements if _apart(scop, s) is not None)
    if names:
        yield Step(MultiplyAdd(names), scop, _made(scop, names))


def _made(scop: Scop, names: tuple[str, ...]) -> Scop:
    return replace(scop, statements=tuple((_apart(scop, s) or s) if s.name in names else s for s in scop.statements))


def _apart(scop: Scop, statement: Statement) -> Statement | None:
    """`s += a * b` for `s = fma(a, b, s)`; None for another statement."""
    body = statement.body
    if not isinstance(body, Assignment) or body.op != "=" or not isinstance(body.value, Call):
        return None
    call, target = body.value, statement.accesses[body.target]
    element = _TYPES.get(call.function)
    if element is None or len(call.arguments) != 3 or scop.arrays[target.array].element is not element:
        return None
    one, two, added = call.arguments
    if not isinstance(added, Load) or not all(isinstance(a, Load) for a in call.arguments):
        return None
    read = [statement.accesses[a.access] for a in call.arguments if isinstance(a, Load)]
    if any(scop.arrays[a.array].element is not element for a in read):
        return None
    if read[2].array != target.array or not read[2].relation.is_equal(target.relation):
        return None
    made = Rebuilt()
    value = Binary("*", made.taken(one, statement.accesses), made.taken(two, statement.accesses))
    return made.statement(statement, target, "+=", value)
