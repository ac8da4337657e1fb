"""Functions of the file in place of their calls, where these do more than compute a number from numbers.

    static double around(const double *a, int i) { double s = a[i - 1] + a[i + 1]; return 0.5 * s; }

    b[i] = around(a, i);            const int i_1 = i;
                                    double s_1 = a[i_1 - 1] + a[i_1 + 1];
                                    double around_1 = 0.5 * s_1;
                                    b[i] = around_1;

What a function is given for a pointer stands in the pointer's place, so that its elements are those of the caller's
arrays; numbers become variables. Functions of numbers alone stay calls, which compilers expand themselves.

Calls that stand outside of loops are expanded where their loops are neighbours of others, so that one region holds
them: the layers of a network, each a call. A call alone is a region where its function is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pycparser import c_ast
from pycparser.c_ast import Node
from pycparser.c_parser import Coord

from polydl.base.records import dataclass
from polydl.frontend.core.node_copies import copied, mapped
from polydl.frontend.core.tree_parts import declaration, indexed, type_named
from polydl.frontend.meaning.liveness import changed_names
from polydl.frontend.meaning.purity import result_type
from polydl.frontend.meaning.symbols import Level, Scope, declarations, mentions, nodes, parameters_of
from polydl.frontend.text.parse import Unit
from polydl.model.types import ElementType

MOST = 64
"""Calls that are expanded in a function."""
_DEEPEST = 8
"""Functions that call each other."""
_LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile)
_MAYBE = (c_ast.TernaryOp, *_LOOPS)
_WHAT: Mapping[type, str] = {
    c_ast.Goto: "it jumps",
    c_ast.Label: "it has a label",
    c_ast.Switch: "it has a switch",
    c_ast.Pragma: "it has a pragma",
    c_ast.CompoundLiteral: "it has a compound literal",
    c_ast.InitList: "it has a list of initial values",
}
_NEVER = tuple(_WHAT)


class Expanded(c_ast.Compound):
    """What a call outside of loops runs, with the place of the call."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a file."""

    expanded: Mapping[str, c_ast.FuncDef] = field(default_factory=dict)
    """Those functions that call others of the file, with the bodies of these in place of the calls, by name; the trees
    are copies."""
    helpers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Those that are static and are called nowhere else, with the functions that call them."""
    refused: Mapping[str, Sequence[tuple[Node, str]]] = field(default_factory=dict)
    """By function the calls outside of loops that are not expanded, though others beside them could be part of one
    region with them, each with the reason."""


def expanded(functions: Sequence[c_ast.FuncDef], unit: Unit, scope: Scope) -> Calls:
    """The calls of a file's functions. `scope`: that of the file.

    Programs' main functions are left alone: what they run is elsewhere.
    """
    if unit.fragments:
        return Calls()  # calls stand for what pragmas say
    bodies = {e.decl.name: e for e in unit.externals if isinstance(e, c_ast.FuncDef) and e.body is not None}
    before = {one.decl.name: _called(one) & bodies.keys() for one in functions}
    made: dict[str, c_ast.FuncDef] = {}
    refused: dict[str, Sequence[tuple[Node, str]]] = {}
    for one in functions:
        if before[one.decl.name] and one.decl.name != "main":
            taken = copied(one)
            expander = _Expander(unit, scope, bodies, taken)
            if expander.loops() | expander.outside(taken.body):
                made[one.decl.name] = taken
            if expander.refused:
                refused[one.decl.name] = expander.refused
    static = {one.decl.name for one in functions if "static" in one.decl.storage}
    callers = {name: frozenset(by for by, called in before.items() if name in called) for name in static}
    helpers = {name for name, by in callers.items() if by}
    left = {name for one in functions if one.decl.name not in helpers for name in _called(made.get(one.decl.name, one))}
    return Calls(made, {name: callers[name] for name in helpers - left}, refused)


def _called(function: c_ast.FuncDef) -> set[str]:
    calls = (n for n in nodes(function.body) if isinstance(n, c_ast.FuncCall))
    return {str(call.name.name) for call in calls if isinstance(call.name, c_ast.ID)}


class _No(Exception):
    """This call stays as it is, and why."""


@dataclass(frozen=True, slots=True)
class Given:
    """What stands for a pointer."""

    base: Node
    """An array, a row of one, or a pointer."""
    at: Node | None = None
    """The place in it that the pointer is at; None: its begin."""


@dataclass(slots=True)
class _Expander:
    unit: Unit
    scope: Scope
    bodies: Mapping[str, c_ast.FuncDef]
    function: c_ast.FuncDef
    names: set[str] = field(init=False)
    """Of the function, and of what was expanded."""
    types: dict[str, c_ast.Decl] = field(init=False)
    """The declarations of variables that the function sees."""
    refused: list[tuple[Node, str]] = field(default_factory=list)
    made: int = 0
    of_function: dict[str, set[str]] = field(default_factory=dict)
    """The names that mean something where calls stand in functions of the file, as they are asked for."""
    of_file: set[str] = field(init=False)
    """The names that mean something everywhere."""

    def __post_init__(self) -> None:
        self.of_function[self.function.decl.name] = _names(self.function)
        self.of_file = {name for e in self.unit.externals if (name := _declared(e))}
        self.names = {name for external in self.unit.externals for name in _names(external)}
        own = [*declarations(self.function.body), *_given_to(self.function)]
        known = [e for e in self.unit.externals if isinstance(e, c_ast.Decl)]
        self.types = {d.name: d for d in [*known, *own] if d.name is not None}

    def loops(self) -> bool:
        """Expand the calls in the loops of the function; whether there are any."""
        loops = [n for n in nodes(self.function.body) if isinstance(n, _LOOPS)]
        inside = {id(n) for loop in loops for n in nodes(loop) if n is not loop}
        for loop in loops:
            if id(loop) not in inside:
                self.statements(loop, (self.function.decl.name,))
        return self.made > 0

    def outside(self, block: c_ast.Compound) -> bool:
        """Expand the calls in a block, outside of its loops, that are neighbours of loops or of other such calls;
        whether there are any."""
        self.of_function[self.function.decl.name] = _names(self.function) - _counters([self.function.body])
        items, found = list(block.block_items or ()), False
        for item in items:
            parts = (item.iftrue, item.iffalse) if isinstance(item, c_ast.If) else (item,)
            for part in parts:
                found |= isinstance(part, c_ast.Compound) and self.outside(part)
        at = 0
        while at < len(items):
            end = at
            while end < len(items) and self._runs_loops(items[end]):
                end += 1
            if end - at > 1 and (made := self._neighbours(items[at:end])) is not None:
                items[at:end] = made
                found = True
            at = max(end, at + 1)
        block.block_items = items
        return found

    def _runs_loops(self, item: Node) -> bool:
        """Whether a statement is a loop, or a call of a function of the file that has some."""
        if isinstance(item, _LOOPS):
            return True
        definition = self._definition(item)
        return definition is not None and self._has_loops(definition, ())

    def _has_loops(self, definition: c_ast.FuncDef, around: tuple[str, ...]) -> bool:
        name = definition.decl.name
        inside = [self._definition(n) for n in nodes(definition.body)] if name not in around else []
        return any(isinstance(n, _LOOPS) for n in nodes(definition.body)) or any(
            one is not None and self._has_loops(one, (*around, name)) for one in inside
        )

    def _neighbours(self, items: Sequence[Node]) -> list[Node] | None:
        """Loops and calls one after the other, those of the latter expanded that stand beside others; None where there
        are none."""
        made: list[Node] = []
        for item in items:
            definition = self._definition(item)
            if isinstance(item, c_ast.FuncCall) and definition is not None:
                try:
                    lines, _ = self._expanded(item, definition, (self.function.decl.name,), item.coord)
                except _No as why:
                    self.refused.append((item, f"the call of '{definition.decl.name}' is not expanded: {why}"))
                    made.append(item)
                else:
                    made.append(Expanded(lines, item.coord))
            else:
                made.append(item)
        joined = [isinstance(one, (*_LOOPS, Expanded)) for one in made]
        beside = [any(joined[max(k - 1, 0) : k] + joined[k + 1 : k + 2]) for k in range(len(made))]
        together = [
            old if isinstance(new, Expanded) and not near else new
            for old, new, near in zip(items, made, beside, strict=True)
        ]
        return together if any(isinstance(one, Expanded) for one in together) else None

    def statements(self, body: Node, around: tuple[str, ...]) -> None:
        """Expand the calls in all statements of a body. `around`: the functions that it is part of."""
        for node in list(nodes(body)):
            match node:
                case c_ast.Compound():
                    node.block_items = self._several(node.block_items, around)
                case c_ast.For() | c_ast.While() | c_ast.DoWhile() | c_ast.Label():
                    node.stmt = self._one(node.stmt, around)
                case c_ast.If():
                    node.iftrue = self._one(node.iftrue, around)
                    node.iffalse = None if node.iffalse is None else self._one(node.iffalse, around)

    def _several(self, items: Sequence[Node] | None, around: tuple[str, ...]) -> list[Node] | None:
        return None if items is None else [one for item in items for one in self._apart(item, around)]

    def _one(self, item: Node, around: tuple[str, ...]) -> Node:
        parts = self._apart(item, around)
        return item if len(parts) == 1 and parts[0] is item else c_ast.Compound(parts, item.coord)

    def _apart(self, item: Node, around: tuple[str, ...]) -> list[Node]:
        """A statement behind what its calls do."""
        before: list[Node] = []
        if isinstance(item, c_ast.FuncCall) and (definition := self._definition(item)) is not None:
            try:
                return self._expanded(item, definition, around, item.coord)[0]
            except _No:
                return [item]
        holder, name = _holder(item)
        if holder is not None:
            setattr(holder, name, self._evaluated(getattr(holder, name), before, around, item.coord))
        return [*before, item]

    def _evaluated(self, node: Node, before: list[Node], around: tuple[str, ...], coord: Coord | None) -> Node:
        """An expression with the values of calls that are evaluated once, and first; `before` gets what they do."""
        if _left_out(node):
            return node
        definition = self._definition(node)
        if isinstance(node, c_ast.FuncCall) and definition is not None and not self._is_pure(node):
            try:
                lines, value = self._expanded(node, definition, around, coord, reads=True)
            except _No:
                pass
            else:
                assert value is not None, "it reads"
                before += lines
                return value
        return mapped(node, lambda inner: self._evaluated(inner, before, around, coord))

    def _definition(self, call: Node) -> c_ast.FuncDef | None:
        if not isinstance(call, c_ast.FuncCall) or not isinstance(call.name, c_ast.ID):
            return None
        return self.bodies.get(call.name.name)

    def _expanded(
        self,
        call: c_ast.FuncCall,
        definition: c_ast.FuncDef,
        around: tuple[str, ...],
        coord: Coord | None,
        *,
        reads: bool = False,
    ) -> tuple[list[Node], Node | None]:
        """The statements that a call runs, and its value; `reads`: they may write nothing but variables of their own.
        Raises _No."""
        name = definition.decl.name
        if why := self._too_much(name, around) or self._closed(definition):
            raise _No(why)
        body = list(definition.body.block_items or [])
        last = body.pop() if body and isinstance(body[-1], c_ast.Return) else None
        value = None if last is None else last.expr
        returns = definition.decl.type
        if why := _no_plain(body) or ("it returns nothing" if reads and value is None else ""):
            raise _No(why)
        if any(_is_volatile(n) for n in nodes(definition)):
            raise _No("something in it is volatile")
        number = self.made + 1
        own = {d.name for one in body for d in declarations(one)}
        everything = [*body, *([] if value is None else [value])]
        outside = _stored_outside(everything, definition)
        taken, lines = self._arguments(call, definition, number, once=bool(outside))
        kept = _counters(body) - self._known(around, call)
        if hidden := own & taken.given.keys():
            raise _No(f"another '{min(hidden)}' hides its parameter")
        # One that hides a parameter is called like it: it still does so.
        taken.fresh.update({each: self._fresh(each, number) for each in own - kept - taken.fresh.keys()})
        if reads and outside:
            raise _No("it writes more than variables of its own, and stands in an expression")
        if moved := changed_names(c_ast.Compound(everything)) & taken.given.keys():
            raise _No(f"it moves its pointer '{min(moved)}'")
        lines += [taken(one) for one in body]
        if not reads and value is not None:
            lines += self._effects(taken(value))
        if reads and value is not None and isinstance(returns, c_ast.FuncDecl):
            result = self._fresh(name, number)
            lines.append(_declaration(result, returns.type, taken(value)))
            value = c_ast.ID(result)
        for node in (n for one in lines for n in nodes(one)):
            node.coord = coord
            if isinstance(node, c_ast.Decl) and node.name is not None:
                self.types[node.name] = node
        block = c_ast.Compound(lines, coord)
        self.statements(block, (*around, name))
        for n in nodes(block):
            # Nothing is gained then, and in loops the message should be about the call that the user sees.
            if isinstance(n, c_ast.FuncCall) and not self._is_pure(n):
                called = f"'{n.name.name}'" if isinstance(n.name, c_ast.ID) else "a function pointer"
                raise _No(f"the effects of its call of {called} are unknown")
        self.made += 1
        return list(block.block_items), value

    def _effects(self, value: Node) -> list[Node]:
        """What is left of a value that nobody uses. Raises _No where that is a part of it."""

        def has_effects(node: Node) -> bool:
            return _stores(node) or (isinstance(node, c_ast.FuncCall) and not self._is_pure(node))

        if not any(map(has_effects, nodes(value))):
            return []
        if not has_effects(value) or getattr(value, "op", "") == "&":
            raise _No("a part of what it returns has effects")
        return [value]

    def _is_pure(self, call: c_ast.FuncCall) -> bool:
        return isinstance(call.name, c_ast.ID) and result_type(call.name.name, self.unit, self.scope) is not None

    def _arguments(
        self, call: c_ast.FuncCall, definition: c_ast.FuncDef, number: int, *, once: bool
    ) -> tuple[Taken, list[Node]]:
        """What stands for the parameters, and the declarations of those that are numbers; with `once` also of numbers
        that say where pointers point, if the function may change what these are read from. Raises _No."""
        parameters = [p for p in parameters_of(definition) if not isinstance(p, c_ast.Typename)]  # (void)
        arguments = call.args.exprs if call.args is not None else []
        declared = _given_to(definition)
        if not len(parameters) == len(arguments) == len(declared):
            raise _No("it is given another number of arguments than it has parameters")
        taken = Taken({}, {})
        lines: list[Node] = []
        for parameter, argument in zip(declared, arguments, strict=True):
            ctype, levels, _, is_function = self.scope.resolve(parameter.type)
            if is_function or not (levels or isinstance(ctype, ElementType)):
                raise _No(f"its parameter '{parameter.name}' is neither a number nor a pointer to data")
            if levels:
                given = self._pointer(argument, levels, ctype, parameter.name)
                taken.given[parameter.name] = self._fixed(given, parameter.name, number, lines) if once else given
            else:
                taken.fresh[parameter.name] = self._fresh(parameter.name, number)
                lines.append(_declaration(taken.fresh[parameter.name], parameter.type, argument))
        return taken, lines

    def _too_much(self, name: str, around: tuple[str, ...]) -> str:
        """Why no call of a function is expanded any more; empty where it is."""
        if name in around:
            return "it calls itself"
        if len(around) > _DEEPEST:
            return f"functions are expanded {_DEEPEST} deep at most"
        return f"{MOST} calls of a function are expanded at most" if self.made >= MOST else ""

    def _closed(self, definition: c_ast.FuncDef) -> str:
        """Why names mean something else in a function than where it is called; empty where they don't."""
        free = set(mentions(definition.body)) - {d.name for d in declarations(definition)}
        both = sorted(free & {d.name for d in declarations(self.function)} - {self.function.decl.name})
        return f"'{both[0]}' means something else where it is called" if both else ""

    def _known(self, around: tuple[str, ...], call: c_ast.FuncCall) -> set[str]:
        """The names that mean something where a call stands, or in its arguments."""
        for name in around:
            if name not in self.of_function:
                self.of_function[name] = _names(self.bodies[name])
        return self.of_file.union(mentions(call), *(self.of_function[name] for name in around))

    def _fresh(self, name: str, number: int) -> str:
        while (found := f"{name}_{number}") in self.names:
            number += 1
        self.names.add(found)
        return found

    def _pointer(self, argument: Node, levels: Sequence[Level], ctype: object, name: str) -> Given:
        """What an argument points at. Raises _No where that has not the pointer's dimensions and type, or does more.
        `name`: of the parameter."""
        if changed_names(argument):
            raise _No(f"what it is given for '{name}' changes a variable")
        match argument:
            case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=base, subscript=at)):
                found = Given(base, at)
            case c_ast.BinaryOp(op="+", left=base, right=at) if self._dimensions(base)[0] > 0:
                found = Given(base, at)
            case c_ast.ID() | c_ast.ArrayRef() | c_ast.StructRef():
                found = Given(argument)
            case _:
                raise _No(f"what it is given for '{name}' is no array, row of one, or address of an element")
        count, element = self._dimensions(found.base)
        if count != len(levels) or (element is not ctype and element != ctype):
            raise _No(f"what it is given for '{name}' has other dimensions, or another type")
        return found

    def _fixed(self, given: Given, name: str, number: int, lines: list[Node]) -> Given:
        """The same place with what is read from memory in it read once, into variables that `lines` gets. Raises _No
        where it is a pointer that is read from memory."""

        def fixed(at: Node) -> Node:
            if not self._may_change(at):
                return at
            own = self._fresh(f"{name}_at", number)
            lines.append(declaration(type_named("long", own), own, copied(at)))
            return c_ast.ID(own)

        base = given.base
        subscripts = []
        while isinstance(base, c_ast.ArrayRef):
            subscripts.append(fixed(base.subscript))
            base = base.name
        if not isinstance(base, c_ast.ID | c_ast.StructRef):
            raise _No(f"what it is given for '{name}' is read from memory that it may change")
        for at in reversed(subscripts):
            base = c_ast.ArrayRef(base, at)
        return Given(base, None if given.at is None else fixed(given.at))

    def _may_change(self, at: Node) -> bool:
        """Whether a function that is called may change the value of an expression: it reads memory, or a variable of
        the file."""
        own = {d.name for d in [*declarations(self.function.body), *_given_to(self.function)]}
        memory = any(isinstance(n, c_ast.ArrayRef | c_ast.StructRef) or _is_read(n) for n in nodes(at))
        return memory or any(name in self.of_file and name not in own for name in mentions(at))

    def _dimensions(self, base: Node) -> tuple[int, object]:
        """How many subscripts an array takes, or a row of one, and its element type; 0 where that is not known."""
        name, taken = indexed(base)
        decl = self.types.get(name)
        if decl is None:
            return 0, None
        ctype, levels, _, is_function = self.scope.resolve(decl.type)
        return (0 if is_function else max(len(levels) - len(taken), 0)), ctype


@dataclass(frozen=True, slots=True)
class Taken:
    """Copies a tree of a function's body for its caller."""

    fresh: dict[str, str]
    """The names of its variables there."""
    given: dict[str, Given]

    def __call__(self, node: Node) -> Node:
        match node:
            case c_ast.ID(name=name) if name in self.fresh:
                return c_ast.ID(self.fresh[name])
            case c_ast.ID(name=name) if name in self.given:
                base, at = self.given[name].base, self.given[name].at
                return copied(base) if at is None else c_ast.BinaryOp("+", copied(base), copied(at))
            case c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=at) if name in self.given:
                return self._element(self.given[name], self(at))
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)) if name in self.given:
                return self._element(self.given[name], c_ast.Constant("int", "0"))
            case c_ast.StructRef(name=c_ast.ID(name=name), type="->") if name in self.given and self.given[name].at:
                element = self._element(self.given[name], None)
                return c_ast.StructRef(element, ".", copied(node.field))
            case c_ast.StructRef():
                return c_ast.StructRef(self(node.name), node.type, copied(node.field))
            case c_ast.TypeDecl(declname=name) if name in self.fresh:
                return c_ast.TypeDecl(self.fresh[name], node.quals, node.align, self(node.type))
        made = mapped(node, self)
        if isinstance(made, c_ast.Decl) and made.name in self.fresh:
            made.name = self.fresh[made.name]
        return made

    def _element(self, given: Given, at: Node | None) -> Node:
        place: Node
        if given.at is None:
            place = at if at is not None else c_ast.Constant("int", "0")
        else:
            place = copied(given.at) if at is None else c_ast.BinaryOp("+", copied(given.at), at)
        return c_ast.ArrayRef(copied(given.base), place)


def _holder(item: Node) -> tuple[Node | None, str]:
    """Where a statement has the expression that is evaluated first and once: an object and the name of its field."""
    match item:
        case c_ast.Assignment():
            return item, "rvalue"
        case c_ast.Decl(init=c_ast.Node()):
            return item, "init"
        case c_ast.If():
            return item, "cond"
        case _:
            return None, ""


def _given_to(function: c_ast.FuncDef) -> list[c_ast.Decl]:
    """The parameters of a function."""
    return [one for one in parameters_of(function) if isinstance(one, c_ast.Decl)]


def _left_out(node: Node) -> bool:
    return isinstance(node, _MAYBE) or getattr(node, "op", "") in ("&&", "||", "sizeof")


def _declaration(name: str, type_: Any, value: Node) -> Node:
    """`const type name = value`"""
    quals = [q for q in type_.quals if q != "const"]
    return declaration(c_ast.TypeDecl(name, quals, None, copied(type_.type)), name, copied(value))


def _names(external: Node) -> set[str]:
    found = {str(n.name) for n in nodes(external) if isinstance(n, c_ast.ID | c_ast.Decl) and n.name is not None}
    return found | {
        str(n.declname) for n in nodes(external) if isinstance(n, c_ast.TypeDecl) and n.declname is not None
    }


def _no_plain(body: Sequence[Node]) -> str:
    """Why statements do not end where they end, or declare something that outlives them; empty where they do."""
    for n in (n for one in body for n in nodes(one)):
        if isinstance(n, c_ast.Return):
            return "it returns before its end"
        if isinstance(n, c_ast.Decl) and n.storage:
            return f"its variable '{n.name}' is {n.storage[0]}"
        if isinstance(n, _NEVER):
            return _WHAT[type(n)]
    return ""


def _counters(body: Sequence[Node]) -> set[str]:
    """The variables that are declared in the headers of loops, and nowhere else: nobody else sees them."""
    loops = [n for one in body for n in nodes(one) if isinstance(n, c_ast.For)]
    heads = [d for loop in loops if isinstance(loop.init, c_ast.DeclList) for d in loop.init.decls]
    own = {id(d) for d in heads}
    others = {d.name for one in body for d in declarations(one) if id(d) not in own}
    return {d.name for d in heads} - others


def _declared(external: Node) -> str:
    """The name of something of the file; empty for a pragma."""
    found = external.decl if isinstance(external, c_ast.FuncDef) else external
    return str(found.name or "") if isinstance(found, c_ast.Decl | c_ast.Typedef) else ""


def _is_volatile(node: Node) -> bool:
    return "volatile" in (getattr(node, "quals", None) or [])


def _stores(node: Node) -> bool:
    steps = isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--", "&")
    return steps or isinstance(node, c_ast.Assignment)


def _is_read(node: Node) -> bool:
    return isinstance(node, c_ast.UnaryOp) and node.op == "*"


def _stored_outside(body: Sequence[Node], definition: c_ast.FuncDef) -> bool:
    """Whether the statements of a function may store to anything but its own variables and arrays."""
    own = {d.name: d.type for one in body for d in declarations(one)}
    given = {d.name for d in _given_to(definition) if isinstance(d.type, c_ast.TypeDecl)}
    for node in (n for one in body for n in nodes(one)):
        if not isinstance(node, c_ast.UnaryOp | c_ast.Assignment) or not _stores(node):
            continue
        place = node.lvalue if isinstance(node, c_ast.Assignment) else node.expr
        name, subscripts = indexed(place)
        plain = name in given or name in own
        if not plain or (subscripts and not isinstance(own.get(name), c_ast.ArrayDecl)):
            return True
    return False
