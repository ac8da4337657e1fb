"""What identifiers mean while a region is walked: iterators, temporaries, parameters, constants, data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.records import dataclass
from polydl.frontend.core.loop_forms import step_of
from polydl.frontend.lower.raw import SourceLoop, Walked
from polydl.frontend.meaning.affine import NotAffine, Symbols, Value, constant, number, symbol
from polydl.frontend.meaning.data_subscripts import Subscript
from polydl.frontend.meaning.library import LIBRARY_CONSTANTS
from polydl.frontend.meaning.purity import result_type
from polydl.frontend.meaning.returned_values import evaluated
from polydl.frontend.meaning.symbols import Scope, Symbol, mentions, nodes
from polydl.frontend.text.parse import Unit
from polydl.frontend.text.pragmas import Pragma
from polydl.model import isl
from polydl.model.scop import Storage
from polydl.model.types import I32, I64, ElementType

_CONDITIONAL = (c_ast.If, c_ast.Switch, c_ast.TernaryOp, c_ast.While, c_ast.DoWhile)
_MOST_CALLS = 8
"""Functions in whose bodies others are evaluated, at most."""
PINNED_HINT = "accesses to it cannot be reordered, nor made by other threads"

Place = tuple[Symbol, list[Subscript], Subscript | None]
"""A place in an array: the array, the subscripts of a row or element, and how far from its first element on."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer that the region declares and does not change: another name for a part of an array."""

    symbol: Symbol
    place: Place
    """What `Elements.pointed_at` says of what it was given."""
    known: Mapping[str, tuple[Value, Node | None] | None]
    """What was known, where it was declared, of the integers that say where it points."""


class NeedsData(Exception):
    """A scalar taken for an affine temporary is data after all: the walk starts again with that known."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def undeclared(name: str) -> str:
    """The way out where nothing says what a name means."""
    return f"if it is a macro, define it, as in -D {name}=1000; or is a header missing (-I)?"


def _target(node: Node) -> str:
    """The variable that a node changes; empty for others."""
    match node:
        case c_ast.Assignment(lvalue=c_ast.ID(name=name)):
            return str(name)
        case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--" | "&", expr=c_ast.ID(name=name)):
            return str(name)
    return ""


def _before(one: Node, other: Node) -> bool:
    """Whether a declaration stands in front of another in the file."""
    if one.coord is None or other.coord is None or str(one.coord.file) != str(other.coord.file):
        return False
    return (one.coord.line, one.coord.column or 0) < (other.coord.line, other.coord.column or 0)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the walk has to know from outside the region."""

    unit: Unit
    scope: Scope
    """Names visible where the region starts."""
    sizes: Mapping[str, int]
    context: isl.Set
    """{ [] : what is known about the parameters }."""
    assigned: frozenset[str]
    """Names that something in the region assigns to."""
    data: frozenset[str]
    """Integer scalars that are data: 0-D arrays."""
    escaping: frozenset[str]
    """Scalars whose value after the region may be read."""
    changed: frozenset[str] = frozenset()
    """Names that the function assigns to anywhere, initialisers apart."""
    pragmas: Mapping[int, Pragma] = field(default_factory=dict)
    """Pragma index -> Pragma."""
    begins: Mapping[str, Node] = field(default_factory=dict)
    """Integers that the region changes -> the expressions of what they are worth where it starts, where that is
    known."""
    stored: frozenset[str] = frozenset()
    """Names of what the region stores something in (liveness.stored_names)."""
    kept: frozenset[int] = frozenset()
    """`if`s, by identity, that stay as they are written."""
    fast_math: bool = False
    """Values that are not finite, and signs of zeros, may be taken for others."""
    region: Node | None = None
    """A Compound of the region's statements."""


class Lookup(Symbols):
    """The state of a walk that says what a name is worth (affine.Symbols)."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(Scope(settings.scope))
        self.settings = settings
        self.places = settings.unit.places
        self.in_value = False
        """True while a right-hand side is evaluated: what is looked up then does not shape the program."""
        self.walked = Walked()
        self.loops: list[tuple[SourceLoop, ElementType]] = []
        self.environment: dict[str, tuple[Value, Node | None] | None] = {}
        """Affine temporaries: value and expression where known, None where not."""
        self.addresses: dict[str, tuple[Symbol, Value]] = {}
        """Temporaries of which only the value modulo 2^64 is known, which they keep: `size_t row = (size_t)i * k`."""
        self.pointers: dict[str, Pointer] = {}
        """Pointers that the region declared last under a name."""
        self.wrapped_ahead: bool | None = None
        """While the condition of a loop is asked for all values that its variable would take without it: whether
        something in it wraps around for some of them. None: at any other time."""
        self.undecided: dict[str, ElementType] = {}
        """The types of the loop variables around whose bounds data decide."""
        self.entries: frozenset[str] = frozenset()
        """Those of them that run through a segment."""
        self._region_declared: dict[str, str] = {}
        self._calling: list[str] = []
        """Functions of the file whose bodies are evaluated at the moment, the outermost first."""

    @property
    def strict(self) -> bool:
        """See `affine.Symbols`: right-hand sides are computed as they stand."""
        return self.in_value

    def variable(self, name: str) -> tuple[ElementType, bool] | None:
        """See `affine.Symbols`."""
        counted = next((ctype for loop, ctype in self.loops if loop.name == name), None)
        return super().variable(name) if counted is None else (counted, False)

    def ahead(self) -> bool:
        """See `affine.Symbols`."""
        if self.wrapped_ahead is None:
            return False
        self.wrapped_ahead = True
        return True

    def grant(self, what: str, outside: isl.Set | None) -> None:
        """See `affine.Symbols`."""
        before = self.walked.granted.get(what, outside)
        self.walked.granted[what] = None if before is None or outside is None else before.union(outside)

    def integer(self, node: c_ast.ID) -> Value:
        """Value of an identifier in an integer expression. Raises NotAffine or NeedsData."""
        name = str(node.name)
        for loop, ctype in self.loops:
            if loop.name == name:
                return symbol(name, ctype)
        if name in self.undecided:
            hint = f"where the bounds of '{name}' stay the same, read them into variables in front of the region"
            raise NotAffine(f"data decide the bounds of '{name}'", node, data=True, hint=hint)
        found = self.scope.find(name)
        if found is None:
            raise NotAffine(f"'{name}' is not declared", node, hint=undeclared(name), topic="declarations")
        integer = found.integer
        if integer is None:
            what = "an array" if found.levels else f"of type '{found.ctype.c}'"
            raise NotAffine(f"'{name}' is {what}", node, data=True)
        known_value = self._known(found)
        if known_value is not None:
            self.walked.constants[name] = found, known_value
            return number(known_value, integer)
        if name in self.settings.data:
            if name in self.settings.escaping:
                hint = f"count in a variable of the loops' own, and give '{name}' its value behind them"
                raise NotAffine(f"'{name}' is changed here and read behind the region", node, data=True, hint=hint)
            if self._only_counts(name) and integer.bits < I32.bits:
                why = f"'{name}' may leave the range of '{integer.c}' where it begins, or as it counts"
                raise NotAffine(why, node, data=True, hint="count in an int, and cut it where it is used")
            if self._only_counts(name):
                why = f"'{name}' counts across loops that do not run equally often each time"
                hint = (
                    "write the subscript in terms of the loops' variables; or, where loops inside always run, state "
                    "that, as in '#pragma polydl assume(m >= 0)'"
                )
                raise NotAffine(why, node, data=True, hint=hint)
            raise NotAffine(f"'{name}' is computed from data or read before the scop gives it a value", node, data=True)
        if name in self.settings.assigned or name in self.environment:
            known = self.environment.get(name)
            if known is not None:
                return known[0]
            if name in self.walked.temporaries and name not in self.environment:
                raise NotAffine(f"'{name}' is used outside its loop", node)
            raise NeedsData(name)
        return self._outside(found, integer, node)

    def as_number(self, value: Value, node: Node, where: isl.Set) -> Value:
        """What a variable is given: a value that is known to lie in the range of its type where it does, and as it is
        where it may be too large. Raises NotAffine where it may be below zero."""
        before, self.in_value = self.in_value, True
        try:
            return self.evaluator.observed(value, node, where)
        except NotAffine as error:
            if not error.wraps:
                raise
            return value
        finally:
            self.in_value = before

    def _only_counts(self, name: str) -> bool:
        """Whether the region only adds numbers to a variable, on no condition, from a value that is known."""
        region = self.settings.region
        if region is None or name not in self.settings.begins:
            return False
        surely = (step_of(one) for one in nodes(region, lambda one: isinstance(one, _CONDITIONAL)))
        steps = [one for one in surely if one is not None and one.name == name and isinstance(one.by, c_ast.Constant)]
        return 0 < len(steps) == sum(_target(one) == name for one in nodes(region))

    def address(self, node: c_ast.ID) -> Value:
        """See `affine.Symbols`. Raises NotAffine or NeedsData."""
        known = self.address_of(str(node.name))
        return self.integer(node) if known is None else known

    def address_of(self, name: str) -> Value | None:
        """What a temporary is modulo 2^64, where no more is known of it; None of any other name."""
        known = self.addresses.get(name)
        hidden = known is None or any(loop.name == name for loop, _ in self.loops)
        return None if known is None or hidden or self.scope.find(name) is not known[0] else known[1]

    def begin_parameters(self) -> None:
        """Where a region starts, parameters of the function that it changes have the values that they were given, and
        locals those that statements in front of it gave them."""
        for name in sorted(self.settings.assigned - self.settings.data):
            found = self.settings.scope.find(name)
            if found is not None and found.integer is not None and found.storage is Storage.PARAMETER:
                node = c_ast.ID(name, found.node.coord)
                try:
                    self.environment[name] = (self._outside(found, found.integer, node), node)
                except NotAffine:
                    self.environment[name] = None
        for name, given in self.settings.begins.items():
            if name not in self.settings.data:
                try:
                    value = self.evaluator.value(given, self.settings.context)
                    found = self.settings.scope.find(name)
                    assert found is not None, "extract finds it"
                    value = self.evaluator.convert(value, found.ctype, given, self.settings.context)
                    value = self.as_number(value, given, self.settings.context)
                except (NotAffine, NeedsData):
                    continue
                self.environment[name] = (value, None)
                self.walked.begun[name] = value

    def _outside(self, found: Symbol, integer: ElementType, node: Node) -> Value:
        """Value of an integer that the region does not change. Raises NotAffine."""
        name = found.name
        if found.pinned:
            raise NotAffine(f"'{name}' is {found.pinned}", node)
        if name in self.settings.sizes:
            self.walked.sized[name] = self.settings.sizes[name]
            return number(self.settings.sizes[name], integer)
        derived = self._derived(found, integer)
        if derived is not None and derived.poly is not None and derived.pw is not None:
            if derived.constant is not None:
                self.walked.sized[name] = derived.constant
            return derived
        self.walked.parameters.setdefault(name, node)
        if not self.in_value:
            self.walked.shaping.add(name)
        if derived is not None and derived.pw is not None:
            self.walked.derived[name] = derived.pw
        return symbol(name, integer)

    def _derived(self, found: Symbol, integer: ElementType) -> Value | None:
        """Value of a local that keeps what it is initialised with, a function of others that keep theirs:
        `int half = n / 2;`."""
        node = found.node
        init = getattr(node, "init", None)
        if init is None or found.storage is not Storage.LOCAL or found.name in self.settings.changed:
            return None
        names = set(mentions(init))
        if not names or {"static", "extern"} & set(found.decl.storage or ()):
            return None
        for name in names:
            other = self.settings.scope.find(name)
            if other is None or other.integer is None or other.pinned or name in self.settings.changed:
                return None
            own = other.value is not None or other.storage in (Storage.PARAMETER, Storage.LOCAL)
            # What is declared behind it is another variable of the name.
            if not own or not _before(other.node, node):
                return None
        context = self.settings.context
        try:
            value = self.evaluator.convert(self.evaluator.value(init, context), integer, init, context)
            return self.evaluator.observed(value, init, context)
        except NotAffine:
            return None

    def _known(self, found: Symbol) -> int | None:
        """Value of an enumerator, a constant, or a local that keeps its constant initialiser; None otherwise."""
        if found.value is not None or found.storage is not Storage.LOCAL or found.name in self.settings.changed:
            return found.value
        init = getattr(found.node, "init", None)
        if init is None or any(mentioned == found.name for mentioned in mentions(init)):
            return None
        return constant(init, self.scope)

    def call(self, node: c_ast.FuncCall, arguments: list[Value], where: isl.Set) -> Value:
        """What a call returns: of an integer function of the file, or of `abs`. Raises NotAffine."""
        name = node.name.name if isinstance(node.name, c_ast.ID) else "a pointer"
        definition = self.settings.unit.definition(name)
        if definition is not None:
            if name in self._calling or len(self._calling) == _MOST_CALLS:
                raise NotAffine(f"it calls '{name}', which calls itself or too many others", node, data=True)
            if self.places.token_of(definition.body) is None:
                hint = "functions in subscripts and bounds have to stand in the same file"
                raise NotAffine(f"it calls '{name}', which stands in another file", node, data=True, hint=hint)
            self.walked.called[name] = definition
            self._calling.append(name)
            try:
                return evaluated(definition, arguments, node, where, self, self.pure)
            finally:
                self._calling.pop()
        result = None if name in self.settings.unit.chunks else {"abs": I32, "labs": I64, "llabs": I64}.get(name)
        if result is None or len(arguments) != 1:
            raise NotAffine("it calls a function", node, data=True)
        value = self.evaluator.convert(arguments[0], result, node, where)
        function = self.evaluator.require(value, node)
        return Value(function.max(function.neg()), None, result)

    def data_symbol(self, node: c_ast.ID) -> Symbol | None:
        """The array or data scalar that an identifier names; None for what the polyhedral model knows by value."""
        name = str(node.name)
        if name in self.undecided or any(loop.name == name for loop, _ in self.loops):
            return None
        found = self.scope.find(name)
        if found is None:
            if name in LIBRARY_CONSTANTS:
                return None
            raise self.places.error(f"'{name}' is not declared", node, undeclared(name), topic="declarations")
        if found.pinned and found.is_integer:
            raise self.places.error(f"'{name}' is {found.pinned}", node, PINNED_HINT, topic="types")
        if found.is_integer and (found.value is not None or name not in self.settings.data):
            return None
        if name not in self.pointers or self.pointers[name].symbol is not found:
            self.walked.symbols.setdefault(name, found)
        return found

    def array_of(self, name: str) -> str | None:
        """The array that a pointer of the region leads into; None of other names."""
        known = self.pointers.get(name)
        return known.place[0].name if known is not None and self.scope.find(name) is known.symbol else None

    def is_stored(self, name: str) -> bool:
        """Whether the region may store to what an array or pointer leads to."""
        return bool({name, self.array_of(name)} & self.settings.stored)

    def pure(self, name: str) -> ElementType | None:
        """Result type of a function without side effects; None for others."""
        return result_type(name, self.settings.unit, self.scope)

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """A block: what it declares ends with it."""
        self.scope = Scope(self.scope)
        try:
            yield
        finally:
            assert self.scope.outer is not None
            self.scope = self.scope.outer

    def declare(self, node: c_ast.Decl, loop_variable: bool = False) -> Symbol:
        """Enter a declaration of the region. Raises InputError when it hides something or is static.

        A loop variable may hide what the region does not use otherwise (see extract.py).
        """
        hidden = self.scope.find(node.name)
        if hidden is not None and loop_variable and hidden.storage is not Storage.REGION:
            self.walked.hiding.setdefault(node.name, node)
            hidden = None
        iterating = any(loop.name == node.name for loop, _ in self.loops)
        if iterating or (hidden is not None and not hidden.is_function):
            raise self.places.error(
                f"'{node.name}' hides another '{node.name}'", node, "give it a name of its own", topic="declarations"
            )
        if "static" in (node.storage or []) or "extern" in (node.storage or []):
            raise self.places.error(
                f"'{node.name}' is {node.storage[0]}", node, "declare it outside the region", topic="declarations"
            )
        found = self.scope.declare(node, Storage.REGION, constant)
        assert found is not None
        text = found.declaration
        if loop_variable:
            return found  # the output has loop variables of its own
        if self._region_declared.setdefault(found.name, text) != text:
            raise self.places.error(
                f"'{found.name}' is declared twice with different types",
                node,
                "give each its own name",
                topic="declarations",
            )
        return found
