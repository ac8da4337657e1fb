"""Types that declarations take from expressions, as C names them.

    __typeof__(n) i = 0;             int i = 0;              (int n)
    __typeof__(x[0]) t = x[i];       const float t = x[i];   (const float *x)
    __auto_type row = A[i];          float *row = A[i];      (float A[n][m])

What type an expression has, follows from declarations and C's conversions (C11 6.3.1.8 and 6.5, C23 6.7.2.5). Where
that is not known the `typeof` stays, which is no type that a region may use.
"""

from __future__ import annotations

from collections.abc import Iterable

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.frontend.core.node_copies import copied
from polydl.frontend.core.tree_parts import type_named
from polydl.frontend.meaning.affine import NotAffine, constant, integer_constant
from polydl.frontend.meaning.records import Records
from polydl.frontend.meaning.symbols import Scope, parameters_of
from polydl.frontend.text.chunks import DEDUCED
from polydl.model.scop import Storage
from polydl.model.types import I32, U64, ElementType, common, float_literal, promoted

_COMPARING = ("<", "<=", ">", ">=", "==", "!=", "&&", "||")


def deduce(functions: Iterable[c_ast.FuncDef], file_scope: Scope) -> None:
    """Put types in the place of what names them in functions. The trees are changed."""
    for function in functions:
        scope = Scope(file_scope)
        for parameter in parameters_of(function):
            _visit(parameter, scope, Storage.PARAMETER)
        _visit(function.body, scope)


def _visit(node: Node, scope: Scope, storage: Storage = Storage.LOCAL) -> None:
    """Put types into a subtree, and declare what it declares."""
    inner = Scope(scope) if isinstance(node, c_ast.Compound | c_ast.For) else scope
    for _, child in node.children():
        _visit(child, inner)
    if isinstance(node, c_ast.Decl | c_ast.Typedef | c_ast.Typename):
        _put(node, scope)
    if isinstance(node, c_ast.Decl | c_ast.Typedef):
        scope.declare(node, storage, constant)


def _put(node: c_ast.Decl | c_ast.Typedef | c_ast.Typename, scope: Scope) -> None:
    """Put a type into a declaration that takes it from an expression."""
    around: c_ast.Decl | c_ast.Typedef | c_ast.Typename | c_ast.PtrDecl | c_ast.ArrayDecl = node
    inner = node.type
    while isinstance(inner, c_ast.PtrDecl | c_ast.ArrayDecl):
        around, inner = inner, inner.type
    if not isinstance(inner, c_ast.TypeDecl):
        return
    found: Node | None = None
    match inner.type:
        case c_ast.TypeOf(op=op, expr=expr):
            found = type_of(expr, scope)
            found = _unqualified(found) if found is not None and op != "typeof" else found
        case c_ast.IdentifierType(names=[name]) if name == DEDUCED and isinstance(node, c_ast.Decl) and node.init:
            found = type_of(node.init, scope)
            if isinstance(found, c_ast.ArrayDecl):
                found = c_ast.PtrDecl([], found.type)
            found = None if found is None else _unqualified(found)
    if found is None:
        return
    made = copied(found)
    core: Node = made
    while isinstance(core, c_ast.PtrDecl | c_ast.ArrayDecl):
        core = core.type
    if not isinstance(core, c_ast.TypeDecl):
        return
    core.declname = inner.declname
    if isinstance(made, c_ast.TypeDecl | c_ast.PtrDecl):
        made.quals = [*dict.fromkeys([*(made.quals or []), *(inner.quals or [])])]
    around.type = made


def _unqualified(type_: Node) -> Node:
    """A type without qualifiers of its own; those of what it points to stay."""
    made = copied(type_)
    if isinstance(made, c_ast.TypeDecl | c_ast.PtrDecl):
        made.quals = []
    return made


def type_of(node: Node, scope: Scope) -> Node | None:
    """The type of an expression as the declaration of something of it has it; None where that is not known."""
    records = Records(scope, constant)
    match node:
        case c_ast.Typename():
            return node.type
        case c_ast.Cast():
            return node.to_type.type
        case c_ast.ID(name=name):
            found = scope.find(name)
            if found is not None and isinstance(found.node, c_ast.Decl):
                return found.node.type
            return _named(None if found is None or found.value is None else found.integer)
        case c_ast.ArrayRef(name=base) | c_ast.UnaryOp(op="*", expr=base):
            outer = type_of(base, scope)
            return None if outer is None else records.inner(outer)
        case c_ast.UnaryOp(op="&", expr=expr):
            to = type_of(expr, scope)
            return None if to is None else c_ast.PtrDecl([], to)
        case c_ast.StructRef(name=base, type=op, field=field):
            outer = type_of(base, scope)
            outer = records.inner(outer) if outer is not None and op == "->" else outer
            member = None if outer is None else records.member(outer, field.name)
            return None if member is None else member.type
        case c_ast.Assignment(lvalue=place) | c_ast.UnaryOp(op="p++" | "p--" | "++" | "--", expr=place):
            return type_of(place, scope)
        case c_ast.ExprList(exprs=[*_, last]):
            return type_of(last, scope)
        case c_ast.FuncCall(name=c_ast.ID() as name):
            function = type_of(name, scope)
            return function.type if isinstance(function, c_ast.FuncDecl) else None
    return _computed(node, scope, records)


def _computed(node: Node, scope: Scope, records: Records) -> Node | None:
    """The type of what operators and literals give."""
    match node:
        case c_ast.Constant() if node.type != "string":
            try:
                return _named(float_literal(node.value) or integer_constant(node).ctype)
            except NotAffine:
                return None
        case c_ast.UnaryOp(op="!"):
            return _named(I32)
        case c_ast.UnaryOp(op="sizeof" | "_Alignof"):
            return _named(U64)
        case c_ast.BinaryOp(op=op) if op in _COMPARING:
            return _named(I32)
        case c_ast.UnaryOp(op="+" | "-" | "~", expr=operand) | c_ast.BinaryOp(op="<<" | ">>", left=operand):
            of = _arithmetic(operand, scope)
            return _named(None if of is None else promoted(of))
        case c_ast.BinaryOp(left=left, right=right) | c_ast.TernaryOp(iftrue=left, iffalse=right):
            sides = [_pointer(type_of(one, scope), records) for one in (left, right)]
            if any(sides):
                moved = not all(sides) and getattr(node, "op", "") in ("+", "-")
                return next(one for one in sides if one is not None) if moved else None
            one, other = _arithmetic(left, scope), _arithmetic(right, scope)
            return _named(None if one is None or other is None else common(one, other))
    return None


def _pointer(type_: Node | None, records: Records) -> Node | None:
    """The type of a pointer, or of an array as a pointer; None for other types."""
    to = None if type_ is None else records.inner(type_)
    return None if to is None else c_ast.PtrDecl([], to)


def _named(found: ElementType | None) -> Node | None:
    return None if found is None else type_named(found.c)


def _arithmetic(node: Node, scope: Scope) -> ElementType | None:
    """The arithmetic type of an expression; None for others."""
    type_ = type_of(node, scope)
    return None if type_ is None else scope.arithmetic(type_)
