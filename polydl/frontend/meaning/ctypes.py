"""C types as the front end meets them: those of the table of element types, and types that no element may have."""

from __future__ import annotations

from typing import ClassVar

from polydl.base.records import dataclass
from polydl.model.types import ElementType, spelled


@dataclass(frozen=True, slots=True)
class OtherType:
    """A C type without arithmetic: void, a structure, a pointer, an extension."""

    c: str
    """As messages name it."""
    is_int: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    unsigned: ClassVar[bool] = False
    bits: ClassVar[int] = 0
    bytes: ClassVar[int] = 0
    """Not known."""


VOID = OtherType("void")

CType = ElementType | OtherType
"""An unqualified C type, typedefs resolved."""


def named(specifiers: str) -> CType:
    """The type that type specifiers name, in any order: `unsigned long int`."""
    return spelled(specifiers) or OtherType(specifiers)
