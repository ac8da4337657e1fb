"""Floating-point types that a compiler may lack, and one that it does not compute with (`polydl_bf16` of polydl.h)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache

from pycparser.c_ast import Node

from polydl.base.errors import InputError, InputErrors
from polydl.frontend.meaning.ctypes import CType
from polydl.frontend.text import limited
from polydl.frontend.text.places import Places
from polydl.model.scop import Scop
from polydl.model.types import BF16, BF16_BITS, F16, F32, ElementType

_PROBE = """
{type} probe({type} x, float y) {{ return ({type})((float)(x + x) * y); }}
"""
_OTHERWISE = {
    BF16: f"use {BF16_BITS} of polydl.h, which every compiler reads, or one that has it: gcc 13, clang 17",
    F16: f"use {F32}, or a compiler that has it: gcc 12, clang 15",
}
"""By the types that are no part of C11, the way out for compilers without them."""


def check_operands(places: Places, node: Node, *types: CType) -> None:
    """Raise InputError where C has no arithmetic for operands of these types."""
    for one in types:
        if isinstance(one, ElementType) and one.through is not None:
            raise places.error(
                f"'{one}' has no arithmetic", node, f"convert it: {one.through[1]}(x) is a {F32}", topic="types"
            )


def check_stored(places: Places, node: Node, target: CType, value: ElementType) -> None:
    """Raise InputError where C does not convert a value to the type of what it is stored to."""
    if target is value:
        return
    if isinstance(target, ElementType) and target.through is not None:
        hint = f"store {target.through[0]}(value), the nearest one to a {F32}"
        raise places.error(f"a '{value}' is stored to a '{target}', to which C does not convert", node, hint, "types")
    check_operands(places, node, value)


def check_argument(places: Places, node: Node, parameter: ElementType, given: ElementType) -> None:
    """Raise InputError where C does not convert an argument of a conversion to the type of its parameter."""
    if parameter.through is not None and given is not parameter:
        hint = f"leave it out, or give it a {parameter} ({parameter.through[0]} makes one)"
        raise places.error(f"{parameter.through[1]} takes a '{parameter}', not a '{given}'", node, hint, "types")
    check_operands(places, node, *(() if given is parameter else (given,)))


def check_compiler(scops: Sequence[Scop], cc: str) -> None:
    """Raise InputErrors for arrays of types that the compiler does not have."""
    errors = []
    for array in {array.name: array for scop in scops for array in scop.arrays.values()}.values():
        if array.element in _OTHERWISE and not has_type(cc, array.element):
            reason = f"the compiler '{cc}' has no type '{array.element}', which the elements of '{array.name}' have"
            errors.append(InputError(reason, array.span, _OTHERWISE[array.element], topic="types"))
    if errors:
        raise InputErrors(errors)


@cache
def has_type(cc: str, element: ElementType) -> bool:
    """Whether a compiler computes with values of a type; of one that does not answer nothing is said."""
    text = _PROBE.format(type=element).encode()
    try:
        return limited.run([cc, "-fsyntax-only", "-x", "c", "-"], text, 1 << 20).code == 0
    except (OSError, subprocess.TimeoutExpired):
        return True
