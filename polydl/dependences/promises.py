"""Checks what the user's pragmas promise about loops against the dependences."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.base.errors import InputWarning
from polydl.dependences.analysis import Dependence, Kind
from polydl.dependences.legality import instance
from polydl.dependences.scalars import private_storage
from polydl.model.scop import Promise, Scop

_DOES = {Kind.RAW: ("writes", "reads"), Kind.WAR: ("reads", "overwrites"), Kind.WAW: ("writes", "overwrites")}


def broken_promises(scop: Scop, found: Sequence[Dependence]) -> list[InputWarning]:
    """One warning for each promise of independent iterations that a dependence contradicts.

    The pragma of such a loop makes threads race. polydl takes the order from the dependences alone: that of the loops
    without their pragmas. `found`: all dependences of the scop.
    """
    private = private_storage(scop)
    warnings = []
    for promise in scop.promises:
        for d in sorted(found, key=lambda d: d.kind is not Kind.RAW):
            if d.kind is not Kind.RAR and _contradicts(promise, d) and private.get(d.array, 0) <= (d.depth or 0):
                warnings.append(_warning(promise, d))
                break
    return warnings


def _contradicts(promise: Promise, d: Dependence) -> bool:
    carried = d.depth is not None and promise.depth <= d.depth < promise.depth + promise.loops
    return carried and {d.source, d.target} <= promise.statements and d.array not in promise.private


def _warning(promise: Promise, d: Dependence) -> InputWarning:
    pair = d.relation.sample()
    first, then = _DOES[d.kind]
    reason = (
        f"the iterations of loop '{d.carried_by}' depend on each other, which '{promise.pragma}' denies: "
        f"{instance(pair.domain())} {first} an element of '{d.array}' that {instance(pair.range())} {then}"
    )
    way_out = f"say reduction(…: {d.array})" if d.reduction else "leave the pragma out"
    return InputWarning(reason, promise.span, f"{way_out}; the loop is taken to run in the order that is written")
