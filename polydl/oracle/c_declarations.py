"""Types as declarations spell them."""

from __future__ import annotations

from dataclasses import replace

from pycparser import c_ast, c_generator, c_parser

from polydl.oracle.c_types import (
    INT,
    SPELLED,
    UINT,
    Array,
    CType,
    Function,
    Integer,
    PointerTo,
    Real,
    Record,
    Vector,
    Void,
    is_variable,
    size_of,
)
from polydl.oracle.c_values import Enumerated, Named, Value, Variable
from polydl.oracle.c_verdicts import Unsupported
from polydl.oracle.c_writer import Writer


def is_restrict(node: c_ast.Node) -> bool:
    return "restrict" in getattr(node, "quals", ()) or "restrict" in (getattr(node, "dim_quals", None) or ())


def is_const(node: c_ast.Node) -> bool:
    """Whether what a declarator declares is constant; of an array, whether its elements are."""
    while isinstance(node, c_ast.ArrayDecl):
        node = node.type
    return "const" in (getattr(node, "quals", None) or ())


def _parts(group: c_ast.Node) -> list[c_ast.Attribute]:
    assert isinstance(group, c_ast.AttributeSpecifier)
    return [one for one in group.attributes if isinstance(one, c_ast.Attribute)]


class Declarations(Writer):
    """Finds types, and enters tags and enumeration constants into the scope."""

    signature = False
    """Dimensions that are not constant stay as C's text."""

    def constant(self, node: c_ast.Node) -> int:
        """An integer constant expression; raises Unsupported if it is none."""
        kept = list(self.lines)
        value = self.value(node)
        self.lines[:] = kept
        if not isinstance(value.constant, int):
            raise self.refuse("no integer constant expression", node)
        return value.constant

    def type_of(self, node: c_ast.Node) -> CType:
        """The type of a declarator or type name."""
        if isinstance(node, c_ast.Decl | c_ast.Typename | c_ast.Typedef):
            return self._attributed(self.type_of(node.type), node)
        if isinstance(node, c_ast.TypeDecl):
            return self._attributed(self.type_of(node.type), node)
        if isinstance(node, c_ast.AttributedType):
            return self._attributed(self.type_of(node.type), node)
        if isinstance(node, c_ast.PtrDecl):
            return PointerTo(self.type_of(node.type), restrict=is_restrict(node), readonly=is_const(node.type))
        if isinstance(node, c_ast.ArrayDecl):
            element = self.type_of(node.type)
            return Array(element, None if node.dim is None else self.dimension(node.dim), node.dim)
        if isinstance(node, c_ast.FuncDecl):
            return self._function(node)
        if isinstance(node, c_ast.IdentifierType):
            return self._spelled(node)
        if isinstance(node, c_ast.Struct | c_ast.Union):
            return self._record(node)
        if isinstance(node, c_ast.Enum):
            return self._enum(node)
        if isinstance(node, c_ast.TypeOf):
            return self.type_of(node.expr) if isinstance(node.expr, c_ast.Typename) else self.type_in(node.expr)
        raise self.refuse(f"a type of the kind {type(node).__name__}", node)

    def type_in(self, node: c_ast.Node) -> CType:
        """The type of an expression that is not evaluated."""
        kept = list(self.lines)
        try:
            if isinstance(node, c_ast.ID):  # in attributes a name of a type looks like one of an object
                named = self.scope.symbol(node.name)
                if named is not None and not isinstance(named, Variable | Named | Enumerated):
                    return named
            if isinstance(node, c_ast.ID | c_ast.ArrayRef | c_ast.StructRef | c_ast.UnaryOp | c_ast.CompoundLiteral):
                if not isinstance(node, c_ast.UnaryOp) or node.op == "*":
                    try:
                        return self.place(node, address=True).type
                    except Unsupported:  # an enumeration constant, or a member of a value
                        self.lines[:] = kept
            return self.value(node).type
        finally:
            self.lines[:] = kept

    def dimension(self, node: c_ast.Node) -> int | str:
        """The number of an array's elements, computed now where it is not constant."""
        if self.signature:
            try:
                return self.constant(node)
            except Unsupported:
                return str(c_generator.CGenerator().visit(node))
        value = self.value(node)
        if not isinstance(value.type, Integer):
            raise self.refuse("the size of an array is no integer", node)
        if isinstance(value.constant, int):
            return value.constant
        code = self.fresh("n")
        self.emit(f"{code} = {value.code}")
        self.emit(f"if {code} <= 0: bad_length({code}, {self.at(node)})")
        return code

    def bytes_of(self, kind: CType) -> int | str:
        """The size; Python for it where a declaration computes it."""
        if isinstance(kind, Array) and is_variable(kind):
            inner = self.bytes_of(kind.element)
            if isinstance(kind.count, int) and isinstance(inner, int):
                return kind.count * inner
            return f"{kind.count} * {inner}"
        return size_of(kind)

    def adjusted(self, node: c_ast.Node) -> CType:
        """The type of a parameter: arrays and functions are pointers."""
        inner = node.type if isinstance(node, c_ast.Decl | c_ast.Typename) else node
        if isinstance(inner, c_ast.ArrayDecl):
            return PointerTo(self.type_of(inner.type), restrict=is_restrict(inner), readonly=is_const(inner.type))
        kind = self.type_of(inner)
        if isinstance(kind, Array):  # the name of an array type
            return PointerTo(kind.element, readonly=is_const(inner))
        return PointerTo(kind) if isinstance(kind, Function) else kind

    def _function(self, node: c_ast.FuncDecl) -> Function:
        returns = self.type_of(node.type)
        if node.args is None:
            return Function(returns, (), variadic=True, prototype=False)
        parameters, variadic = [], False
        before, self.signature = self.signature, True
        with self.inner_scope():
            for one in node.args.params:
                if isinstance(one, c_ast.EllipsisParam):
                    variadic = True
                elif isinstance(one, c_ast.ID):
                    raise self.refuse("a function without types of parameters", one)
                else:
                    kind = self.adjusted(one)
                    if not isinstance(kind, Void):
                        parameters.append(kind)
        self.signature = before
        return Function(returns, tuple(parameters), variadic, prototype=True)

    def _spelled(self, node: c_ast.IdentifierType) -> CType:
        found = SPELLED.get(tuple(sorted(node.names)))
        if found is not None:
            return found
        if len(node.names) == 1:
            named = self.scope.symbol(node.names[0])
            if named is not None and not isinstance(named, Variable | Named | Enumerated):
                return named
        raise self.refuse(f"the type '{' '.join(node.names)}'", node)

    def _attributed(self, kind: CType, node: c_ast.Node) -> CType:
        for group in getattr(node, "attributes", None) or ():
            for one in _parts(group):
                if one.name in ("vector_size", "__vector_size__") and isinstance(kind, Integer | Real):
                    kind = Vector(kind, self._argument(one) // kind.size)
                elif one.name in ("aligned", "__aligned__") and isinstance(kind, Vector | Integer | Real):
                    kind = replace(kind, least_alignment=self._argument(one))
        return kind

    def _argument(self, attribute: c_ast.Attribute) -> int:
        """The number in an attribute's parentheses."""
        text = str(attribute.arguments or "16")
        parsed = c_parser.CParser().parse(f"long polydl_number = {text};").ext[0]
        assert isinstance(parsed, c_ast.Decl) and parsed.init is not None
        return self.constant(parsed.init)

    def _record(self, node: c_ast.Struct | c_ast.Union) -> Record:
        union = isinstance(node, c_ast.Union)
        tag = node.name or f"<anonymous at {node.coord}>"
        if node.decls is None:
            found = self.scope.tag(tag)
            if isinstance(found, Record):
                return found
            return self._new_record(tag, union)
        known = self.records.get(id(node))
        if known is not None:
            return known
        present = self.scope.tags.get(tag)
        record = present if isinstance(present, Record) and present.members is None else self._new_record(tag, union)
        self.records[id(node)] = record
        members: list[tuple[str | None, CType]] = []
        for one in node.decls:
            if not isinstance(one, c_ast.Decl):
                continue
            if one.bitsize is not None:
                record.refused = f"bit-fields, as in '{record}'"
                return record
            try:
                kind = self.type_of(one.type)
                if not isinstance(kind, Array) or kind.count is not None:
                    size_of(kind)
                if is_variable(kind):
                    raise self.refuse("a member of variable size", one)
            except Unsupported as error:
                record.refused = f"'{record}' has a member that is not known here: {error.reason}"
                return record
            members.append((one.name, kind))
        names = {one.name.strip("_"): one for group in node.attributes for one in _parts(group)}
        aligned = self._argument(names["aligned"]) if "aligned" in names else 1
        record.complete(members, packed="packed" in names, aligned=aligned)
        return record

    @property
    def records(self) -> dict[int, Record]:
        """Structures that were declared, by their node: declarators after one list of members share it."""
        raise NotImplementedError

    def _new_record(self, tag: str, union: bool) -> Record:
        record = Record(tag, union)
        self.scope.tags[tag] = record
        return record

    def _enum(self, node: c_ast.Enum) -> Integer:
        if node.values is None:
            found = self.scope.tag(node.name or "")
            return found if isinstance(found, Integer) else UINT
        following, least, most = 0, 0, 0
        for one in node.values.enumerators:
            if isinstance(one, c_ast.Enumerator):
                if one.value is not None:
                    following = self.constant(one.value)
                if not INT.least <= following <= INT.most:
                    raise self.refuse(f"the enumeration constant '{one.name}' is no int", one)
                self.scope.names[one.name] = Enumerated(following, INT)
                least, most = min(least, following), max(most, following)
                following += 1
        kind = INT if least < 0 else UINT
        if node.name:
            self.scope.tags[node.name] = kind
        return kind

    def null_constant(self, value: Value) -> bool:
        """Whether a value may become any pointer: 0."""
        return isinstance(value.type, Integer) and value.constant == 0
