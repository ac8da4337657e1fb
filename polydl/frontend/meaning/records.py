"""Structures: their members, and where these lie in memory.

Sizes and offsets are those of the System V ABI (x86-64, AArch64): each member at the next multiple of its alignment,
the whole rounded up to a multiple of the largest. What is packed lies otherwise, which the output checks by `sizeof`
where it computes addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.meaning.ctypes import CType, named
from polydl.frontend.meaning.symbols import Scope
from polydl.model.types import I32, ElementType

_POINTER = 8
_MOST_TYPEDEFS = 64

Evaluate = Callable[[Node, Scope], int | None]


class Unknown(Exception):
    """A structure whose members cannot be placed; the message says why."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A member without members, inside of a structure."""

    path: str
    """As it is written behind an element: `.x`, `.pos.x`."""
    offset: int
    """In bytes."""
    ctype: CType
    """Of its elements."""
    dims: tuple[int, ...]
    """Elements per dimension; () for a scalar."""
    pointer: bool = False
    """A pointer or an array of pointers."""

    @property
    def count(self) -> int:
        """Elements."""
        total = 1
        for extent in self.dims:
            total *= extent
        return total


class Records:
    """The structures that are visible in a scope."""

    def __init__(self, scope: Scope, evaluate: Evaluate) -> None:
        self.scope = scope
        self._evaluate = evaluate

    def peeled(self, node: Node) -> Node:
        """A type node without what names it: a PtrDecl, ArrayDecl, FuncDecl, Struct, Union, Enum or
        IdentifierType, typedefs resolved."""
        for _ in range(_MOST_TYPEDEFS):
            if isinstance(node, (c_ast.TypeDecl, c_ast.Typename, c_ast.Decl)):
                node = node.type
            elif isinstance(node, c_ast.IdentifierType) and len(node.names) == 1:
                typedef = self.scope.find_typedef(node.names[0])
                if typedef is None:
                    return node
                node = typedef
            else:
                return node
        return node

    def inner(self, node: Node) -> Node | None:
        """What a pointer points to, or an array holds; None for anything else."""
        found = self.peeled(node)
        return found.type if isinstance(found, (c_ast.PtrDecl, c_ast.ArrayDecl)) else None

    def struct(self, node: Node) -> c_ast.Struct | c_ast.Union | None:
        """The Struct node with the members of a structure type; None for other types and for one without them."""
        found = self.peeled(node)
        return self._whole(found) if isinstance(found, c_ast.Struct) else None

    def _whole(self, found: c_ast.Struct | c_ast.Union) -> c_ast.Struct | c_ast.Union | None:
        return found if found.decls is not None else self.scope.find_tag(found.name)

    def members(self, found: c_ast.Struct | c_ast.Union) -> list[c_ast.Decl]:
        """What a structure or union declares; nothing of one that is not declared here."""
        whole = self._whole(found)
        listed = whole.decls if whole is not None and type(whole) is type(found) else None
        return [one for one in listed or () if isinstance(one, c_ast.Decl)]

    def member(self, node: Node, name: str) -> c_ast.Decl | None:
        """The Decl of a member of a structure type, those of structures without a name in it included; None where
        there is none."""
        found = self.peeled(node)
        for decl in self.members(found) if isinstance(found, c_ast.Struct) else ():
            if decl.name == name:
                return decl
            if decl.name is None and (inner := self.member(decl.type, name)) is not None:
                return inner
        return None

    def size(self, node: Node) -> tuple[int, int]:
        """(bytes, alignment) of a type. Raises Unknown."""
        found = self.peeled(node)
        if isinstance(found, c_ast.PtrDecl):
            return _POINTER, _POINTER
        if isinstance(found, c_ast.ArrayDecl):
            size, align = self.size(found.type)
            return size * self.extent(found), align
        if isinstance(found, c_ast.Struct):
            return self._placed(found)[1:]
        if isinstance(found, c_ast.Union):
            parts = [self.size(one.type) for one in self.members(found)]
            if not parts:
                raise Unknown("a union in it is not declared here")
            align = max(part for _, part in parts)
            return -(-max(size for size, _ in parts) // align) * align, align
        if isinstance(found, c_ast.Enum):
            return I32.bytes, I32.bytes
        ctype = self.ctype(found)
        if not isinstance(ctype, ElementType):
            raise Unknown(f"the size of '{ctype.c}' is not known")
        # a complex number is aligned as its parts are
        return ctype.bytes, ctype.bytes if ctype.is_int or ctype.is_float else ctype.bytes // 2

    def extent(self, node: c_ast.ArrayDecl) -> int:
        """The number of elements of an ArrayDecl. Raises Unknown."""
        extent = None if node.dim is None else self._evaluate(node.dim, self.scope)
        if extent is None or extent < 0:
            raise Unknown("the size of an array in it is not a number")
        return extent

    def ctype(self, node: Node) -> CType:
        """The type of a scalar."""
        found = self.peeled(node)
        if isinstance(found, c_ast.Enum):
            return self.scope.enumeration(found)
        if isinstance(found, c_ast.IdentifierType):
            return named(" ".join(name for name in found.names if name not in ("const", "volatile")))
        return named(type(found).__name__.lower())

    def _placed(self, struct: Node | None) -> tuple[list[tuple[c_ast.Decl, int]], int, int]:
        """(members with their offsets, bytes, alignment) of a structure. Raises Unknown."""
        declared = self.members(struct) if isinstance(struct, c_ast.Struct) else []
        if not declared:
            raise Unknown("its members are not known")
        members: list[tuple[c_ast.Decl, int]] = []
        at, widest = 0, 1
        for decl in declared:
            if decl.bitsize is not None:
                raise Unknown("it has bit-fields")
            if decl.align:
                raise Unknown("a member of it is aligned by hand")
            size, align = self.size(decl.type)
            at = -(-at // align) * align
            members.append((decl, at))
            at, widest = at + size, max(widest, align)
        return members, -(-at // widest) * widest, widest

    def offset(self, node: Node, name: str) -> int:
        """Where a member lies in a structure type, in bytes. Raises Unknown."""
        for decl, at in self._placed(self.peeled(node))[0]:
            if decl.name == name:
                return at
            if decl.name is None and self.member(decl.type, name) is not None:
                return at + self.offset(decl.type, name)
        raise Unknown(f"it has no member '{name}'")

    def leaves(self, node: Node, path: str = "", base: int = 0) -> Iterator[Leaf]:
        """The members of a structure type, those of structures inside of it in their place; arrays of structures
        and unions are left out. Raises Unknown."""
        for decl, at in self._placed(self.peeled(node))[0]:
            here = path if decl.name is None else f"{path}.{decl.name}"
            found, dims = self.peeled(decl.type), []
            while isinstance(found, c_ast.ArrayDecl):
                dims.append(self.extent(found))
                found = self.peeled(found.type)
            if isinstance(found, c_ast.Struct):
                if not dims:
                    yield from self.leaves(found, here, base + at)
            elif not isinstance(found, c_ast.Union):
                pointer = isinstance(found, (c_ast.PtrDecl, c_ast.FuncDecl))
                yield Leaf(here, base + at, self.ctype(found), tuple(dims), pointer)
