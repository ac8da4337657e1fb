"""Running the functions of a generated file, as it was read for an instruction set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pycparser import c_ast

from polydl.model.types import spelled
from polydl.prove.bodies import Runner
from polydl.prove.integers import ZERO, Affine, Unreadable
from polydl.prove.printed_program import Pointer
from polydl.prove.symbolic_values import Load
from polydl.target.isa import ROW_TYPES, Isa, lanes_name, narrow_lanes


def runner(functions: Mapping[str, Any], isa: Isa, closed: str = "") -> Runner:
    """What runs the functions of a file that was read for an instruction set."""
    kinds = {lanes_name(t): (isa.lanes(t), t) for t in ROW_TYPES} | narrow_lanes(isa)
    lanes, sizes = ({name: kind[0] for name, kind in kinds.items()}, {name: t.bytes for name, (_, t) in kinds.items()})
    return Runner(functions, lanes, sizes, closed=closed)


def opaque_arguments(definition: Any) -> dict[str, Any]:
    """A value for each parameter: an address, an integer, an element."""
    found: dict[str, Any] = {}
    for parameter in definition.decl.type.args.params:
        name, kind = parameter.name, parameter.type
        if isinstance(kind, c_ast.PtrDecl):
            found[name] = Pointer(name, ZERO)
        else:
            element = spelled(" ".join(kind.type.names))
            whole = element is not None and element.is_int
            found[name] = Affine(((name, 1),)) if whole else Load(Pointer(name, ZERO))
    return found


def constant(value: Any) -> int:
    if not isinstance(value, Affine) or value.terms:
        raise Unreadable("a number that is not known before the program runs")
    return value.constant


# Sums
