"""Bits of one scalar read as another type, however it is spelled, as calls of functions on values.

    memcpy(&f, &u, sizeof f);            f = polydl_float_of_bits(u);
    y = *(float *)&u;                    y = polydl_float_of_bits(u);
    *(uint32_t *)&f = u;                 f = polydl_float_of_bits((unsigned int)u);
    union { float f; uint32_t u; } b;    unsigned int b;
    b.u = u;  y = b.f;                   b = u;  y = polydl_float_of_bits(b);

The functions are rows of `model.functions`. Both types are arithmetic, of 4 or 8 bytes; a union is a variable of the
function whose members are all such, of one size. What is spelled in another way, or about other types, stays. The trees
are changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.node_copies import mapped
from polydl.frontend.core.tree_parts import assigned_value, integer, type_named
from polydl.frontend.meaning.affine import constant
from polydl.frontend.meaning.records import Records
from polydl.frontend.meaning.symbols import Scope, parameters_of
from polydl.model.functions import FUNCTIONS
from polydl.model.scop import Storage
from polydl.model.types import U32, U64, ElementType

_WORDS = {U32.bytes: U32, U64.bytes: U64}
_TO_FLOAT = {next(iter(row.spellings.values())): row.name for row in FUNCTIONS if row.bits_of in (U32, U64)}
"""By type the function that makes it of its bits."""
_OF_FLOAT = {row.bits_of: row.name for row in FUNCTIONS if row.bits_of is not None and row.bits_of.is_float}
"""By type the function that gives its bits."""
_COPIES = ("memcpy", "memmove", "__builtin_memcpy")


def reinterpreted(function: c_ast.FuncDef, file_scope: Scope) -> bool:
    """Change the body of a function as said above; whether it reads a scalar through a pointer to another type, which
    C's rules on aliasing leave undefined."""
    rewriting = _Rewriting()
    scope = Scope(file_scope)
    for parameter in parameters_of(function):
        scope.declare(parameter, Storage.PARAMETER, constant)
    body = rewriting.one(function.body, scope, function)
    assert isinstance(body, c_ast.Compound), "it stays one"
    function.body = body
    return rewriting.aliased


class _Rewriting:
    def __init__(self) -> None:
        self.aliased = False
        self.unions: dict[int, dict[str, ElementType]] = {}
        """By declaration, by identity, of a variable of a union type that is a word now: the types of its members."""

    def one(self, node: Node, scope: Scope, parent: Node) -> Node:
        """What stands in the place of a statement or expression."""
        match node:
            case c_ast.Decl():
                return self._declared(node, scope, parent)
            case c_ast.Typedef():
                scope.declare(node, Storage.LOCAL, constant)
                return node
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name in _COPIES:
                made = self._copied(node, scope)
            case c_ast.Assignment():
                made = self._assigned(node, scope)
            case _:
                made = None
        if made is not None:
            return made
        inner = Scope(scope) if isinstance(node, c_ast.Compound | c_ast.For) else scope
        made = mapped(node, lambda child: self.one(child, inner, node))
        read = self._read(made, scope)
        return made if read is None else read

    def _declared(self, node: c_ast.Decl, scope: Scope, parent: Node) -> Node:
        members = None
        if node.name is not None and not node.storage and "volatile" not in (node.quals or ()):
            members = self._members(node, scope)
        if members is not None and _only_members(node.name, parent):
            first = next(iter(members))
            if node.init is not None:
                listed = _initial(node.init, first)
                if listed is None or listed[0] not in members:
                    return node
                value = self.one(listed[1], scope, node)
                node.init = _converted(_cast(value, members[listed[0]]), members[listed[0]], _word(members))
            node.type = type_named(_word(members).c, node.name)
            self.unions[id(node)] = members
        elif node.init is not None:
            node.init = self.one(node.init, scope, node)
        scope.declare(node, Storage.LOCAL, constant)
        return node

    def _union(self, name: str, scope: Scope) -> dict[str, ElementType] | None:
        """The members of a variable that is a word now; None for others."""
        found = scope.find(name)
        return None if found is None else self.unions.get(id(found.node))

    def _members(self, node: Node, scope: Scope) -> dict[str, ElementType] | None:
        """The scalars of a union type, all of one size; None for other types."""
        records = Records(scope, constant)
        found = records.peeled(node)
        members: dict[str, ElementType] = {}
        for member in records.members(found) if isinstance(found, c_ast.Union) else ():
            ctype = scope.arithmetic(member.type)
            if ctype is None or member.name is None or not _is_word(ctype) or member.bitsize is not None:
                return None
            members[member.name] = ctype
        return members if len({one.bytes for one in members.values()}) == 1 else None

    def _copied(self, node: c_ast.FuncCall, scope: Scope) -> Node | None:
        """The assignment that a copy of one scalar is; None where it is none, or of other types or bytes."""
        given = list(node.args.exprs) if node.args is not None else []
        if len(given) != 3:
            return None
        target, source = (_pointed(one, scope) for one in given[:2])
        if target is None or source is None:
            return None
        to, of = (self._scalar(one, scope) for one in (target, source))
        if to is None or of is None or to is of or to.bytes != of.bytes or constant(given[2], scope) != to.bytes:
            return None
        value = self.one(source, scope, node)
        return c_ast.Assignment("=", self.one(target, scope, node), _converted(value, of, to), node.coord)

    def _assigned(self, node: c_ast.Assignment, scope: Scope) -> Node | None:
        """A store to a scalar as one of another type; None for other stores."""
        place = self._place(node.lvalue, scope)
        if place is None:
            return None
        target, held, stored = place
        value = _cast(self.one(assigned_value(node), scope, node), stored)
        return c_ast.Assignment("=", target, _converted(value, stored, held), node.coord)

    # Expressions

    def _read(self, node: Node, scope: Scope) -> Node | None:
        if isinstance(node, c_ast.StructRef) and node.type == "." and isinstance(node.name, c_ast.CompoundLiteral):
            members = self._members(node.name.type, scope)
            listed = None if members is None else _initial(node.name.init, next(iter(members)))
            if members is None or listed is None or listed[0] not in members or node.field.name not in members:
                return None
            source = members[listed[0]]
            return _converted(_cast(listed[1], source), source, members[node.field.name])
        place = self._place(node, scope)
        return None if place is None else _converted(place[0], place[1], place[2])

    def _place(self, node: Node, scope: Scope) -> tuple[Node, ElementType, ElementType] | None:
        """(a scalar, its type, the type as which it is read or stored); None for what is no other type's."""
        match node:
            case c_ast.StructRef(type=".", name=c_ast.ID(name=name), field=c_ast.ID(name=field)):
                members = self._union(name, scope) or {}
                return (node.name, _word(members), members[field]) if field in members else None
            case c_ast.UnaryOp(op="*", expr=c_ast.Cast(to_type=to, expr=c_ast.UnaryOp(op="&", expr=scalar))):
                pointed = Records(scope, constant).inner(to)
                ctype = None if pointed is None else scope.arithmetic(pointed)
                held = self._scalar(scalar, scope)
                if ctype is None or held is None or not _is_word(ctype) or ctype is held or ctype.bytes != held.bytes:
                    return None
                self.aliased |= ctype.is_float or held.is_float
                return scalar, held, ctype
        return None

    def _scalar(self, node: Node, scope: Scope) -> ElementType | None:
        """The type of a variable or element; None for others, and for types of other sizes."""
        depth = 0
        while isinstance(node, c_ast.ArrayRef) or (isinstance(node, c_ast.UnaryOp) and node.op == "*"):
            depth += 1
            node = node.name if isinstance(node, c_ast.ArrayRef) else node.expr
            if isinstance(node, c_ast.BinaryOp) and node.op == "+":
                node = node.left
        if not isinstance(node, c_ast.ID) or self._union(node.name, scope) is not None:
            return None
        found = scope.find(node.name)
        if found is None or found.is_function or found.pinned or len(found.levels) != depth:
            return None
        return found.ctype if isinstance(found.ctype, ElementType) and _is_word(found.ctype) else None


def _is_word(ctype: ElementType) -> bool:
    """Whether it is a type whose bits may be read."""
    return ctype.bytes in _WORDS and (ctype.is_int or ctype in _OF_FLOAT)


def _word(members: dict[str, ElementType]) -> ElementType:
    return _WORDS[next(iter(members.values())).bytes]


def _converted(value: Node, source: ElementType, target: ElementType) -> Node:
    """The bits of a value of one type as another."""
    if source is target:
        return value
    word = _WORDS[source.bytes]
    if source.is_float:
        value, source = c_ast.FuncCall(c_ast.ID(_OF_FLOAT[source], value.coord), _list(value), value.coord), word
    if target.is_float:
        bits = value if source is word else _cast(value, word)
        return c_ast.FuncCall(c_ast.ID(_TO_FLOAT[target], value.coord), _list(bits), value.coord)
    return value if source is target else _cast(value, target)


def _list(value: Node) -> c_ast.ExprList:
    return c_ast.ExprList([value], value.coord)


def _cast(value: Node, target: ElementType) -> Node:
    return c_ast.Cast(c_ast.Typename(None, [], None, type_named(target.c)), value, value.coord)


def _initial(init: Node, first: str) -> tuple[str, Node] | None:
    """The member that an initialiser of a union gives, and its value; None where it is no list of one."""
    if not isinstance(init, c_ast.InitList) or len(init.exprs) != 1:
        return None
    (value,) = init.exprs
    if isinstance(value, c_ast.NamedInitializer):
        named = value.name[0] if len(value.name) == 1 else None
        return (named.name, value.expr) if isinstance(named, c_ast.ID) else None
    return None if isinstance(value, c_ast.InitList) else (first, value)


def _only_members(name: str, node: Node) -> bool:
    """Whether nothing is done with a variable but reading and assigning its members."""
    match node:
        case c_ast.UnaryOp(
            op="&" | "++" | "--" | "p++" | "p--" | "sizeof", expr=c_ast.StructRef(type=".", name=c_ast.ID(name=own))
        ):
            return bool(own != name)
        case c_ast.StructRef(type=".", name=c_ast.ID()):
            return True
        case c_ast.StructRef(name=inner) | c_ast.NamedInitializer(expr=inner):
            return _only_members(name, inner)
        case c_ast.ID():
            return bool(node.name != name)
    return all(_only_members(name, child) for child in node)


def _pointed(node: Node, scope: Scope) -> Node | None:
    """The element that a pointer points to: of `&x`, `p + i` and `p`; None for others."""
    while isinstance(node, c_ast.Cast):
        node = node.expr
    match node:
        case c_ast.UnaryOp(op="&", expr=scalar):
            return scalar
        case c_ast.BinaryOp(op="+", left=c_ast.ID() as base, right=offset):
            return c_ast.ArrayRef(base, offset, node.coord)
        case c_ast.ID(name=name):
            found = scope.find(name)
            one = found is not None and len(found.levels) == 1
            return c_ast.ArrayRef(node, integer(0, node.coord), node.coord) if one else None
    return None


def every_function(functions: Iterable[c_ast.FuncDef], file_scope: Scope) -> frozenset[str]:
    """Change functions; the names of those that read scalars through pointers to other types."""
    return frozenset(one.decl.name for one in functions if reinterpreted(one, file_scope))
