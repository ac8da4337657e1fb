"""Types as declarations spell them, and where members lie.

Sizes and offsets are those of the System V ABI (x86-64, AArch64).
"""

from __future__ import annotations

from collections.abc import Iterator

from pycparser import c_ast

from polydl.frontend.text.chunks import FAKE_TYPES, OPAQUE
from polydl.frontend.typed.core_values import (
    ArrayOf,
    Const,
    Field,
    Member,
    Pointer,
    Record,
    Signature,
    Type,
    Value,
    Void,
    Why,
)
from polydl.frontend.typed.emitter import Emitter, NotUnderstood
from polydl.frontend.typed.layout_attributes import LayoutAttributes
from polydl.frontend.typed.pure_values import alignment, convert, size
from polydl.frontend.typed.scopes import Typedef
from polydl.model.types import I32, I64, U32, ElementType, spelled


class TypeReader(Emitter):
    """Finds types, and enters tags and enumeration constants into the scope."""

    signature = False
    """Whether a declaration of a function is read: dimensions mean nothing there."""
    _records: dict[int, Record]
    """By their nodes: declarators behind one list of members share it."""
    _attributes: LayoutAttributes

    def value(self, node: c_ast.Node) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def type_in(self, node: c_ast.Node) -> Type:
        """The type of an expression that is not evaluated."""
        raise NotImplementedError

    def type_of(self, node: c_ast.Node) -> Type:
        """The type of a declarator or type name. Raises NotUnderstood."""
        match node:
            case c_ast.Decl() | c_ast.Typedef() | c_ast.Typename():
                return self.type_of(node.type)
            case c_ast.TypeDecl():
                if "_Atomic" in node.quals:
                    raise NotUnderstood("an atomic type")
                return self.type_of(node.type)
            case c_ast.PtrDecl():
                target = self.type_of(node.type)
                return Pointer(target, self.is_volatile(node.type), "restrict" in (node.quals or ()))
            case c_ast.ArrayDecl():
                return ArrayOf(self.type_of(node.type), None if node.dim is None else self.dimension(node.dim))
            case c_ast.FuncDecl():
                return self._signature(node)
            case c_ast.IdentifierType():
                return self._spelled(node)[0]
            case c_ast.Struct() | c_ast.Union():
                return self._record(node)
            case c_ast.Enum():
                return self._enumeration(node)
            case c_ast.TypeOf():
                inner = node.expr
                return self.type_of(inner) if isinstance(inner, c_ast.Typename) else self.type_in(inner)
        raise NotUnderstood(f"a type of the kind {type(node).__name__}")

    def is_volatile(self, node: c_ast.Node) -> bool:
        """Whether a declarator declares something volatile; of an array, its elements."""
        while isinstance(node, c_ast.ArrayDecl | c_ast.Decl | c_ast.Typedef | c_ast.Typename):
            node = node.type
        if "volatile" in (getattr(node, "quals", None) or ()):
            return True
        inner = node.type if isinstance(node, c_ast.TypeDecl) else None
        return isinstance(inner, c_ast.IdentifierType) and self._spelled(inner)[1]

    def dimension(self, node: c_ast.Node) -> Value | None:
        """Elements of an array, an I64; what is not constant is computed here."""
        if self.signature:
            try:
                with self.block():
                    value = self.value(node)
            except NotUnderstood:  # it may name another parameter
                return None
            return convert(value, I64, Why.USUAL) if isinstance(value, Const) else None
        value = convert(self.value(node), I64, Why.USUAL, self.span(node))
        return self.kept(value, node)

    def adjusted(self, node: c_ast.Node) -> Type:
        """The type of a parameter: arrays and functions are pointers."""
        inner = node.type if isinstance(node, c_ast.Decl | c_ast.Typename) else node
        if isinstance(inner, c_ast.ArrayDecl):
            restrict = "restrict" in (inner.dim_quals or ())
            return Pointer(self.type_of(inner.type), self.is_volatile(inner.type), restrict)
        kind = self.type_of(inner)
        if isinstance(kind, ArrayOf):  # the name of an array type
            return Pointer(kind.element, self.is_volatile(inner))
        return Pointer(kind) if isinstance(kind, Signature) else kind

    def parameters(self, node: c_ast.FuncDecl) -> Iterator[c_ast.Node]:
        """The parameters of a function, without `void` and `...`."""
        for one in node.args.params if node.args is not None else ():
            if isinstance(one, c_ast.EllipsisParam):
                continue
            plain = one.type if isinstance(one, c_ast.Decl | c_ast.Typename) else None
            inner = plain.type if isinstance(plain, c_ast.TypeDecl) else None
            if not (isinstance(inner, c_ast.IdentifierType) and self._spelled(inner)[0] == Void()):
                yield one

    def _signature(self, node: c_ast.FuncDecl) -> Signature:
        returns = self.type_of(node.type)
        if node.args is None:
            return Signature(returns, None)
        variadic = any(isinstance(one, c_ast.EllipsisParam) for one in node.args.params)
        before, self.signature = self.signature, True
        try:
            with self.names():
                return Signature(returns, tuple(map(self.adjusted, self.parameters(node))), variadic)
        finally:
            self.signature = before

    def _spelled(self, node: c_ast.IdentifierType) -> tuple[Type, bool]:
        """The type, and whether the name is of a volatile one."""
        words = [word for word in node.names if word not in ("const", "volatile")]
        if words == ["void"]:
            return Void(), False
        found = self.scope.find(words[0]) if len(words) == 1 else None
        if isinstance(found, Typedef):
            return found.type, found.volatile
        kind = spelled(" ".join(words))
        if kind is None:
            raise NotUnderstood(f"the type '{' '.join(words)}'")
        return kind, "volatile" in node.names

    def _record(self, node: c_ast.Struct | c_ast.Union) -> Record:
        union = isinstance(node, c_ast.Union)
        if id(node) in self._records:
            return self._records[id(node)]
        found = self.scope.tag(node.name) if node.name is not None and node.decls is None else None
        if isinstance(found, Record):
            return found
        present = self.scope.tags.get(node.name or "")
        incomplete = isinstance(present, Record) and present.members is None
        record = present if isinstance(present, Record) and incomplete else Record(node.name or "", union)
        if node.name is not None:
            self.scope.tags[node.name] = record
        if node.decls is not None:
            self._records[id(node)] = record
            if not self._attributes.of(node):
                self._lay_out(record, node.decls)
        return record

    def _lay_out(self, record: Record, decls: list[c_ast.Node]) -> None:
        """Each member at the next multiple of its alignment; the members stay None of what is not understood."""
        at, widest, end = 0, 1, 0
        members: list[Member] = []
        for decl in decls:
            if not isinstance(decl, c_ast.Decl):
                continue
            if decl.bitsize is not None or decl.align:
                return
            kind = self.type_of(decl.type)
            if isinstance(kind, ArrayOf) and kind.count is None:  # the last one may have any length
                length: int | None = 0
            else:
                length = size(kind)
            if length is None:
                return
            step = alignment(kind)
            at = 0 if record.union else -(-at // step) * step
            members.append(Member(decl.name, kind, at, self.is_volatile(decl.type)))
            at += length
            widest, end = max(widest, step), max(end, at)
        record.alignment, record.size = widest, -(-end // widest) * widest
        record.members = tuple(members)

    def _enumeration(self, node: c_ast.Enum) -> ElementType:
        if node.values is None:
            found = self.scope.tag(node.name or "")
            return found if isinstance(found, ElementType) else U32
        number, least = 0, 0
        for one in node.values.enumerators:
            assert isinstance(one, c_ast.Enumerator), "pycparser has nothing else there"
            if one.value is not None:
                value = self.value(one.value)
                if not isinstance(value, Const) or not isinstance(value.number, int):
                    raise NotUnderstood("an enumeration constant that is not constant")
                number = value.number
            self.scope.names[one.name] = Const(number, I32)
            least, number = min(least, number), number + 1
        kind = I32 if least < 0 else U32  # as gcc chooses
        if node.name is not None:
            self.scope.tags[node.name] = kind
        return kind

    def typedef(self, node: c_ast.Typedef) -> None:
        """Enter the name of a type; those of the standard mean what they mean, whatever the fake headers say."""
        fake = node.coord is not None and str(node.coord.file).endswith(FAKE_TYPES)
        plain = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
        fake |= isinstance(plain, c_ast.Struct) and f"struct {plain.name}" == OPAQUE[0]
        if fake and spelled(node.name) is not None:
            return
        self.scope.names[node.name] = None
        self.scope.names[node.name] = Typedef(self.type_of(node.type), self.is_volatile(node.type))


def member(record: Record, name: str) -> tuple[tuple[Field, ...], Member]:
    """The way to a member, through structures without a name. Raises NotUnderstood."""
    if record.members is None:
        raise NotUnderstood(f"the members of '{record}', which are not known, packed by bits or aligned by hand")
    for one in record.members:
        if one.name == name:
            return (Field(one.offset, name),), one
    for one in record.members:
        if one.name is None and isinstance(one.type, Record) and has_member(one.type, name):
            way, found = member(one.type, name)
            return (Field(one.offset + way[0].offset, name), *way[1:]), found
    raise NotUnderstood(f"'{record}' has no member '{name}'")


def has_member(record: Record, name: str) -> bool:
    """Whether a structure has a member, perhaps in one without a name."""
    try:
        member(record, name)
    except NotUnderstood:
        return False
    return True
