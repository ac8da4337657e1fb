"""What a C identifier stands for, and the scopes that say so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.tree_parts import text_of
from polydl.frontend.meaning.ctypes import CType, OtherType, named
from polydl.frontend.text.chunks import FAKE_TYPES, OPAQUE
from polydl.model.scop import Members, Storage
from polydl.model.types import I32, U32, ElementType, spelled

_MAX_TYPEDEF_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Level:
    """One step from a declared name to its element: an array dimension or a pointer."""

    pointer: bool
    extent: Node | None = None
    """pycparser expression of an array's size; None for `[]` and for pointers."""
    restrict: bool = False


@dataclass(frozen=True, slots=True)
class Symbol:
    """A declared object."""

    name: str
    ctype: CType
    """Element type."""
    levels: tuple[Level, ...]
    """Empty for a scalar."""
    storage: Storage
    node: Node
    """pycparser Decl."""
    const: bool = False
    is_function: bool = False
    value: int | None = None
    """Value of an enumerator or of a constant that nothing can change."""
    pinned: str = ""
    """`volatile` (it, what it points to or its elements, by a typedef as well) or `thread-local`: accesses to it stay
    in their order, and on their thread; empty: they need not."""
    member: str = ""
    """The member of a structure that it stands for, `m->data`; empty for what the program declares itself."""
    inside: bool = False
    """Of such a member: the structure holds it, and not only a pointer to it."""
    members: Members | None = None
    """Of an array of structures: the last level counts places in them."""

    @property
    def shown(self) -> str:
        """As messages name it."""
        return self.member or self.spelled

    @property
    def spelled(self) -> str:
        """Its name in the program: arrays that are members of one structure have the same."""
        return (self.members.of if self.members is not None else "") or self.name

    @property
    def is_scalar(self) -> bool:
        return not self.levels and not self.is_function

    @property
    def is_static(self) -> bool:
        """Of the file alone."""
        return self.storage is Storage.GLOBAL and "static" in (getattr(self.node, "storage", None) or ())

    @property
    def integer(self) -> ElementType | None:
        """The type of an integer scalar; None of anything else."""
        return self.ctype if self.is_scalar and isinstance(self.ctype, ElementType) and self.ctype.is_int else None

    @property
    def is_integer(self) -> bool:
        return self.integer is not None

    @property
    def of_rows(self) -> bool:
        """An array of pointers to rows: `float **A`, `float *A[M]`."""
        return len(self.levels) == 2 and self.levels[1].pointer and not self.member

    @property
    def decays(self) -> bool:
        """A pointer rather than an array: a pointer variable, an array parameter, or in what a pointer points to."""
        if self.of_rows:
            return True
        reached = self.levels[:1] and (self.levels[0].pointer or "->" in self.member)
        return bool(self.levels) and (bool(reached) or self.storage is Storage.PARAMETER)

    @property
    def restrict(self) -> bool:
        """Nothing else reaches this memory: a restrict pointer, or no pointer at all."""
        return not self.decays or self.levels[1 if self.of_rows else 0].restrict

    @property
    def decl(self) -> c_ast.Decl:
        """Where it is declared; of no enumerator."""
        assert isinstance(self.node, c_ast.Decl), "enumerators have no declaration of their own"
        return self.node

    @property
    def declaration(self) -> str:
        """As a function parameter: storage class and initialiser left out, macros expanded."""
        node = self.decl
        bare = c_ast.Decl(node.name, node.quals, [], [], [], node.type, None, None)
        return text_of(bare)


class Scope:
    """Names visible at a place, inner ones hiding outer ones."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.symbols: dict[str, Symbol] = {}
        self.typedefs: dict[str, Node] = {}
        self.tags: dict[str, c_ast.Struct | c_ast.Union] = {}
        """Structures and unions by their tag -> the node with the members."""
        self.enumerations: dict[str, ElementType] = {}
        """By tag what objects of them are."""

    def copy(self) -> Scope:
        """The names that are visible now: what is declared later does not show in the copy."""
        made = Scope(self.outer)
        made.symbols, made.typedefs, made.tags = dict(self.symbols), dict(self.typedefs), dict(self.tags)
        made.enumerations = dict(self.enumerations)
        return made

    @property
    def file(self) -> Scope:
        """The outermost one."""
        return self if self.outer is None else self.outer.file

    def find(self, name: str) -> Symbol | None:
        return next((scope.symbols[name] for scope in self._outwards() if name in scope.symbols), None)

    def find_typedef(self, name: str) -> Node | None:
        return next((scope.typedefs[name] for scope in self._outwards() if name in scope.typedefs), None)

    def find_tag(self, tag: str | None) -> c_ast.Struct | c_ast.Union | None:
        """The structure or union with this tag, with its members; None where there is none."""
        return next((scope.tags[tag] for scope in self._outwards() if tag in scope.tags), None)

    def _outwards(self) -> Iterator[Scope]:
        """This one and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def declare(self, node: Node, storage: Storage, evaluate: Callable[[Node, Scope], int | None]) -> Symbol | None:
        """Enter a declaration (Decl, Typedef, enum); gives the object declared, if it is one."""
        if isinstance(node, c_ast.Typedef):
            self.enumerators(node.type, evaluate)
            if not _is_standard(node):
                self.typedefs[node.name] = node.type
            return None
        if not isinstance(node, c_ast.Decl):
            return None
        self.enumerators(node.type, evaluate)
        if node.name is None:
            return None
        ctype, levels, const, is_function = self.resolve(node.type)
        value = None
        if const and not levels and ctype.is_int and node.init is not None:
            value = evaluate(node.init, self)
        pinned = "volatile" if self._volatile(node.type) else ""
        if "_Thread_local" in (getattr(node, "storage", None) or ()):
            pinned = "thread-local"
        symbol = Symbol(node.name, ctype, levels, storage, node, const, is_function, value, pinned)
        self.symbols[node.name] = symbol
        return symbol

    def _volatile(self, declared: Node, depth: int = 0) -> bool:
        """Whether a type, or one that a typedef in it names, says volatile anywhere."""
        if depth > _MAX_TYPEDEF_DEPTH:
            return False
        for node in nodes(declared):
            words = node.names if isinstance(node, c_ast.IdentifierType) else getattr(node, "quals", None) or []
            if "volatile" in words:
                return True
        named_types = (self.find_typedef(word) for word in type_names(declared))
        return any(found is not None and self._volatile(found, depth + 1) for found in named_types)

    def enumerators(self, node: Node, evaluate: Callable[[Node, Scope], int | None]) -> None:
        """Enter the constants of an enum that a type declares, and structures and unions by their tags."""
        while isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl, c_ast.TypeDecl, c_ast.FuncDecl)):
            node = node.type
        if isinstance(node, (c_ast.Struct, c_ast.Union)) and node.decls is not None:
            if node.name is not None:
                self.tags[node.name] = node
            for member in node.decls:
                if isinstance(member, c_ast.Decl):
                    self.enumerators(member.type, evaluate)
        if not isinstance(node, c_ast.Enum) or node.values is None:
            return
        following: int | None = 0
        for enumerator in node.values.enumerators:
            if not isinstance(enumerator, c_ast.Enumerator):
                continue
            if enumerator.value is not None:
                following = evaluate(enumerator.value, self)
            self.symbols[enumerator.name] = Symbol(
                enumerator.name, I32, (), Storage.GLOBAL, enumerator, True, value=following
            )
            following = None if following is None else following + 1
        if node.name is not None:
            self.enumerations[node.name] = self.enumeration(node)

    def enumeration(self, node: c_ast.Enum) -> ElementType:
        """What objects of an enumeration are to gcc and clang: unsigned where no constant is negative. (The constants
        are of type int.)"""
        if node.values is None:
            known = (scope.enumerations.get(node.name or "") for scope in self._outwards())
            return next((one for one in known if one is not None), U32)
        constants = (self.find(one.name) for one in node.values.enumerators if isinstance(one, c_ast.Enumerator))
        values = [None if one is None else one.value for one in constants]
        return I32 if any(value is None or value < 0 for value in values) else U32

    def arithmetic(self, node: Node) -> ElementType | None:
        """The type that a type node describes, where that is one of the table; None for others."""
        ctype, levels, _, is_function = self.resolve(node)
        return ctype if isinstance(ctype, ElementType) and not levels and not is_function else None

    def resolve(self, node: Node, depth: int = 0) -> tuple[CType, tuple[Level, ...], bool, bool]:
        """(element type, levels from the outside in, element is const, is a function) of a type node."""
        levels: list[Level] = []
        const = False
        if depth > _MAX_TYPEDEF_DEPTH:
            return OtherType("recursive typedef"), (), False, False
        while True:
            if isinstance(node, c_ast.ArrayDecl):
                levels.append(Level(False, node.dim, "restrict" in (node.dim_quals or [])))
            elif isinstance(node, c_ast.PtrDecl):
                levels.append(Level(True, None, "restrict" in (node.quals or [])))
            elif isinstance(node, c_ast.FuncDecl):
                return OtherType("function"), tuple(levels), const, True
            elif isinstance(node, (c_ast.TypeDecl, c_ast.Typename)):
                const = const or "const" in (node.quals or [])
            else:
                break
            node = node.type
        if isinstance(node, c_ast.IdentifierType):
            names = [name for name in node.names if name not in ("const", "volatile")]
            if len(names) == 1:
                typedef = self.find_typedef(names[0])
                if typedef is not None:
                    ctype, inner, inner_const, function = self.resolve(typedef, depth + 1)
                    if isinstance(ctype, OtherType) and (ctype.c.endswith("?") or ctype.c in OPAQUE):
                        ctype = OtherType(names[0])  # a structure without a tag has the typedef's name alone
                    return ctype, (*levels, *inner), const or inner_const, function
            return named(" ".join(names)), tuple(levels), const, False
        if isinstance(node, c_ast.Enum):
            return self.enumeration(node), tuple(levels), const, False
        kind = type(node).__name__.lower()
        if isinstance(node, c_ast.TypeOf):
            return OtherType(text_of(node)), tuple(levels), const, False
        return OtherType(f"{kind} {getattr(node, 'name', None) or '?'}"), tuple(levels), const, False


def _is_standard(node: c_ast.Typedef) -> bool:
    """Whether a type that is known by its name is declared as another one than it is: in the fake headers as int, and
    as a structure where polydl.h or the parser stand in for compilers that do not have it."""
    fake = node.coord is not None and str(node.coord.file).endswith(FAKE_TYPES)
    inner = node.type.type if isinstance(node.type, c_ast.TypeDecl) else None
    return spelled(node.name) is not None and (fake or isinstance(inner, c_ast.Struct))


def nodes(root: Node, left_out: Callable[[Node], bool] | None = None) -> Iterator[Node]:
    """A subtree's nodes in textual order, each before those inside of it; what is `left_out` is so with everything
    inside."""
    left = [root]
    while left:
        node = left.pop()
        if left_out is not None and left_out(node):
            continue
        yield node
        if not isinstance(node, (c_ast.ID, c_ast.Constant)):
            left += [*node][::-1]


def declarations(root: Node) -> list[c_ast.Decl]:
    """Those in a subtree."""
    return [node for node in nodes(root) if isinstance(node, c_ast.Decl)]


def parameters_of(function: c_ast.FuncDef) -> list[Node]:
    """What a function declares between its parentheses."""
    declared = function.decl.type
    return list(declared.args.params) if isinstance(declared, c_ast.FuncDecl) and declared.args is not None else []


def mentions(root: Node) -> Iterator[str]:
    """Every identifier used in a subtree, repeats included, textual order."""
    return (node.name for node in nodes(root) if isinstance(node, c_ast.ID))


def type_names(root: Node) -> Iterator[str]:
    """Every word of the types used in a subtree: `unsigned`, `int`, names of typedefs."""
    return (name for node in nodes(root) if isinstance(node, c_ast.IdentifierType) for name in node.names)
