"""The nodes of pycparser's trees, after its `_c_ast.cfg`; which parts may be missing is said here alone."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from pycparser.c_parser import Coord

MaybeNone: TypeAlias = Any
"""None in some trees, or another node, which callers have to know; as typeshed has it."""

class Node:
    __slots__: tuple[str, ...]
    coord: Coord | None
    def children(self) -> tuple[tuple[str, Node], ...]: ...
    def __iter__(self) -> Iterator[Node]: ...

class ArrayDecl(Node):
    type: Node
    dim: Node | None
    dim_quals: list[str]
    attributes: list[Node]
    def __init__(
        self,
        type: Node,
        dim: Node | None,
        dim_quals: list[str],
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class ArrayDesignator(Node):
    expr: Node
    def __init__(self, expr: Node, coord: Coord | None = None) -> None: ...

class ArrayRef(Node):
    name: Node
    subscript: Node
    def __init__(self, name: Node, subscript: Node, coord: Coord | None = None) -> None: ...

class Assignment(Node):
    op: str
    lvalue: Node
    rvalue: Node
    def __init__(self, op: str, lvalue: Node, rvalue: Node, coord: Coord | None = None) -> None: ...

class Alignas(Node):
    alignment: Node
    def __init__(self, alignment: Node, coord: Coord | None = None) -> None: ...

class Attribute(Node):
    name: str
    namespace: str
    arguments: list[Node]
    def __init__(self, name: str, namespace: str, arguments: list[Node], coord: Coord | None = None) -> None: ...

class AttributeSpecifier(Node):
    attributes: list[Node]
    def __init__(self, attributes: list[Node], coord: Coord | None = None) -> None: ...

class AttributeDeclaration(Node):
    attributes: list[Node]
    def __init__(self, attributes: list[Node], coord: Coord | None = None) -> None: ...

class AttributedStatement(Node):
    attributes: list[Node]
    stmt: Node
    def __init__(self, attributes: list[Node], stmt: Node, coord: Coord | None = None) -> None: ...

class AttributedType(Node):
    type: Node
    attributes: list[Node]
    def __init__(self, type: Node, attributes: list[Node], coord: Coord | None = None) -> None: ...

class BinaryOp(Node):
    op: str
    left: Node
    right: Node
    def __init__(self, op: str, left: Node, right: Node, coord: Coord | None = None) -> None: ...

class BitIntType(Node):
    width: Node
    signedness: str
    def __init__(self, width: Node, signedness: str, coord: Coord | None = None) -> None: ...

class Break(Node):
    def __init__(self, coord: Coord | None = None) -> None: ...

class Case(Node):
    expr: Node
    stmts: list[Node]
    attributes: list[Node]
    def __init__(
        self, expr: Node, stmts: list[Node], coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class Cast(Node):
    to_type: Typename
    expr: Node
    def __init__(self, to_type: Typename, expr: Node, coord: Coord | None = None) -> None: ...

class Compound(Node):
    block_items: list[Node] | MaybeNone
    def __init__(self, block_items: list[Node] | MaybeNone, coord: Coord | None = None) -> None: ...

class CompoundLiteral(Node):
    type: Node
    init: Node
    storage: list[str]
    def __init__(self, type: Node, init: Node, storage: list[str], coord: Coord | None = None) -> None: ...

class Constant(Node):
    type: str
    value: str
    def __init__(self, type: str, value: str, coord: Coord | None = None) -> None: ...

class Continue(Node):
    def __init__(self, coord: Coord | None = None) -> None: ...

class Decl(Node):
    name: str | MaybeNone
    quals: list[str]
    align: list[Node]
    storage: list[str]
    funcspec: list[str]
    type: Node
    init: Node | None
    bitsize: Node | None
    attributes: list[Node]
    def __init__(
        self,
        name: str | MaybeNone,
        quals: list[str],
        align: list[Node],
        storage: list[str],
        funcspec: list[str],
        type: Node,
        init: Node | None,
        bitsize: Node | None,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class DeclList(Node):
    decls: list[Decl]
    def __init__(self, decls: list[Decl], coord: Coord | None = None) -> None: ...

class Default(Node):
    stmts: list[Node]
    attributes: list[Node]
    def __init__(
        self, stmts: list[Node], coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class DoWhile(Node):
    cond: Node
    stmt: Node
    def __init__(self, cond: Node, stmt: Node, coord: Coord | None = None) -> None: ...

class EllipsisParam(Node):
    def __init__(self, coord: Coord | None = None) -> None: ...

class EmptyStatement(Node):
    def __init__(self, coord: Coord | None = None) -> None: ...

class Enum(Node):
    name: str | None
    values: EnumeratorList | None
    underlying_type: Node | None
    attributes: list[Node]
    def __init__(
        self,
        name: str | None,
        values: EnumeratorList | None,
        underlying_type: Node | None,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class Enumerator(Node):
    name: str
    value: Node | None
    attributes: list[Node]
    def __init__(
        self, name: str, value: Node | None, coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class EnumeratorList(Node):
    enumerators: list[Node]
    def __init__(self, enumerators: list[Node], coord: Coord | None = None) -> None: ...

class ExprList(Node):
    exprs: list[Node]
    def __init__(self, exprs: list[Node], coord: Coord | None = None) -> None: ...

class FileAST(Node):
    ext: list[Node]
    def __init__(self, ext: list[Node], coord: Coord | None = None) -> None: ...

class For(Node):
    init: Node | None
    cond: Node | None
    next: Node | None
    stmt: Node
    def __init__(
        self, init: Node | None, cond: Node | None, next: Node | None, stmt: Node, coord: Coord | None = None
    ) -> None: ...

class FuncCall(Node):
    name: ID | MaybeNone
    args: ExprList | MaybeNone
    def __init__(self, name: ID | MaybeNone, args: ExprList | MaybeNone, coord: Coord | None = None) -> None: ...

class FuncDecl(Node):
    args: ParamList | None
    type: Node
    attributes: list[Node]
    def __init__(
        self, args: ParamList | None, type: Node, coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class FuncDef(Node):
    decl: Decl
    param_decls: list[Node] | None
    body: Compound
    def __init__(
        self, decl: Decl, param_decls: list[Node] | None, body: Compound, coord: Coord | None = None
    ) -> None: ...

class GenericAssociation(Node):
    type: Node | None
    expr: Node
    def __init__(self, type: Node | None, expr: Node, coord: Coord | None = None) -> None: ...

class GenericSelection(Node):
    expr: Node
    associations: list[Node]
    def __init__(self, expr: Node, associations: list[Node], coord: Coord | None = None) -> None: ...

class Goto(Node):
    name: str
    def __init__(self, name: str, coord: Coord | None = None) -> None: ...

class ID(Node):
    name: str
    def __init__(self, name: str, coord: Coord | None = None) -> None: ...

class IdentifierType(Node):
    names: list[str]
    def __init__(self, names: list[str], coord: Coord | None = None) -> None: ...

class If(Node):
    cond: Node
    iftrue: Node
    iffalse: Node | None
    def __init__(self, cond: Node, iftrue: Node, iffalse: Node | None, coord: Coord | None = None) -> None: ...

class InferredType(Node):
    def __init__(self, coord: Coord | None = None) -> None: ...

class InitList(Node):
    exprs: list[Node]
    def __init__(self, exprs: list[Node], coord: Coord | None = None) -> None: ...

class Label(Node):
    name: str
    stmt: Node
    attributes: list[Node]
    def __init__(
        self, name: str, stmt: Node, coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class NamedInitializer(Node):
    name: list[Node]
    expr: Node
    def __init__(self, name: list[Node], expr: Node, coord: Coord | None = None) -> None: ...

class ParamList(Node):
    params: list[Node]
    def __init__(self, params: list[Node], coord: Coord | None = None) -> None: ...

class PtrDecl(Node):
    quals: list[str]
    type: Node
    attributes: list[Node]
    def __init__(
        self, quals: list[str], type: Node, coord: Coord | None = None, *, attributes: list[Node] | None = None
    ) -> None: ...

class Return(Node):
    expr: Node | None
    def __init__(self, expr: Node | None, coord: Coord | None = None) -> None: ...

class StaticAssert(Node):
    cond: Node
    message: Node | None
    def __init__(self, cond: Node, message: Node | None, coord: Coord | None = None) -> None: ...

class Struct(Node):
    name: str | None
    decls: list[Node] | None
    attributes: list[Node]
    def __init__(
        self,
        name: str | None,
        decls: list[Node] | None,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class StructRef(Node):
    name: Node
    type: str
    field: ID
    def __init__(self, name: Node, type: str, field: ID, coord: Coord | None = None) -> None: ...

class Switch(Node):
    cond: Node
    stmt: Node
    def __init__(self, cond: Node, stmt: Node, coord: Coord | None = None) -> None: ...

class TernaryOp(Node):
    cond: Node
    iftrue: Node
    iffalse: Node
    def __init__(self, cond: Node, iftrue: Node, iffalse: Node, coord: Coord | None = None) -> None: ...

class TypeDecl(Node):
    declname: str | MaybeNone
    quals: list[str]
    align: list[Node] | None
    type: Node
    attributes: list[Node]
    def __init__(
        self,
        declname: str | MaybeNone,
        quals: list[str],
        align: list[Node] | None,
        type: Node,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class Typedef(Node):
    name: str
    quals: list[str]
    storage: list[str]
    type: Node
    attributes: list[Node]
    def __init__(
        self,
        name: str,
        quals: list[str],
        storage: list[str],
        type: Node,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class Typename(Node):
    name: str | None
    quals: list[str]
    align: list[Node] | None
    type: Node
    attributes: list[Node]
    def __init__(
        self,
        name: str | None,
        quals: list[str],
        align: list[Node] | None,
        type: Node,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class TypeOf(Node):
    op: str
    expr: Node
    def __init__(self, op: str, expr: Node, coord: Coord | None = None) -> None: ...

class UnaryOp(Node):
    op: str
    expr: Node
    def __init__(self, op: str, expr: Node, coord: Coord | None = None) -> None: ...

class Union(Node):
    name: str | None
    decls: list[Node] | None
    attributes: list[Node]
    def __init__(
        self,
        name: str | None,
        decls: list[Node] | None,
        coord: Coord | None = None,
        *,
        attributes: list[Node] | None = None,
    ) -> None: ...

class While(Node):
    cond: Node
    stmt: Node
    def __init__(self, cond: Node, stmt: Node, coord: Coord | None = None) -> None: ...

class Pragma(Node):
    string: str
    def __init__(self, string: str, coord: Coord | None = None) -> None: ...
