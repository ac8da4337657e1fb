"""Random programs: affine loop nests that stay in bounds and whose values stay exact in every C type used."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import reject
from hypothesis import strategies as st

from tests.oracle.fit import fit_extents, tame, without_unused_parameters
from tests.oracle.interpret import TooLong, interpret, worst_data
from tests.oracle.language import (
    ArrayDecl,
    Assign,
    Binary,
    Compare,
    Cond,
    Data,
    DivMod,
    For,
    If,
    Int,
    IntValue,
    Lit,
    Load,
    Logic,
    MinMax,
    Negate,
    Node,
    Not,
    Num,
    Program,
    Scale,
    Sum,
    Temp,
    Var,
    assignments,
    loads,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a random program may contain."""

    max_depth: int = 4
    """Loops around a statement."""
    max_statements: int = 4
    imperfect: bool = True
    """Statements beside loops, several nests; otherwise one nest with every statement in its innermost loop."""
    conditions: bool = True
    steps: bool = True
    """Steps other than 1, and loops that run downwards."""
    triangular: bool = True
    """Bounds that depend on outer loops."""
    min_max: bool = True
    division: bool = True
    """/ and % by constants, in bounds, subscripts and conditions."""
    temporaries: bool = True
    """Affine temporaries."""
    parameters: bool = True
    """Symbolic sizes."""
    linear: bool = False
    """Arrays passed flat and subscripted by hand."""
    odd_names: bool = True
    """C identifiers that mean something to isl."""
    ctypes: tuple[str, ...] = ("float", "float", "double", "int")
    max_instances: int = 400


_PLAIN_NAMES = (("i", "j", "k", "l"), ("A", "B", "C"), ("N", "M"))
_ODD_NAMES = (("mod", "exists", "infty", "ceild"), ("max", "A", "implies"), ("rat", "true_"))


@st.composite
def programs(draw: st.DrawFn, limits: Limits = Limits()) -> Program:
    """Programs whose subscripts fit their extents and whose values never exceed EXACT, in whatever order they are
    summed and for every seed of `initial_data`. At most `limits.max_instances` statements are executed."""
    builder = _Builder(draw, limits)
    program = builder.program()
    try:
        program = fit_extents(program, interpret(program), builder.spelled)
        trace = interpret(program, worst_data(program))
    except TooLong:
        reject()
    if not 1 <= len(trace.instances) <= limits.max_instances:
        reject()
    return without_unused_parameters(tame(program, trace))


class _Builder:
    def __init__(self, draw: st.DrawFn, limits: Limits) -> None:
        self.draw = draw
        self.limits = limits
        self.names = _ODD_NAMES if limits.odd_names and self.chance(1, 6) else _PLAIN_NAMES
        self.statements_left = self.number(1, limits.max_statements)
        self.temporaries = 0
        self.arrays: dict[str, ArrayDecl] = {}
        self.parameters: dict[str, int] = {}

    # --- small draws

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def chance(self, times: int, out_of: int) -> bool:
        """True in `times` of `out_of` cases; False is what hypothesis shrinks to."""
        return self.draw(st.integers(0, out_of - 1)) >= out_of - times

    def one_of(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    # --- the program

    def program(self) -> Program:
        _, arrays, parameters = self.names
        if self.limits.parameters:
            self.parameters = {
                name: self.draw(st.sampled_from((3, 4, 5, 2, 1))) for name in parameters[: self.number(0, 2)]
            }
        for name in arrays[: self.number(1, 3)]:
            rank = self.number(0, 3)
            ctype = self.one_of(*self.limits.ctypes) if rank else "double" if self.chance(1, 2) else "float"
            linear = rank > 0 and self.limits.linear and self.chance(1, 2)
            self.arrays[name] = ArrayDecl(ctype, (1,) * rank, linear=linear)
        outer = tuple(self.parameters)
        if self.limits.imperfect:
            body = self.block((), outer)
        else:
            body = (self.perfect(self.number(1, self.limits.max_depth), (), outer),)
        used = {a for s in assignments(body) for a in (s.array, *(r.array for r in loads(s.value)))}
        return Program(
            body,
            {name: array for name, array in self.arrays.items() if name in used},
            self.parameters,
            declare_in_for=not self.chance(1, 3),
            macros=self.chance(1, 2),
        )

    def perfect(self, depth: int, loops: tuple[str, ...], scope: tuple[str, ...]) -> For:
        """A chain of `depth` more loops with all statements in the innermost."""
        var = self.names[0][len(loops)]
        if depth == 1:
            inside = (*loops, var)
            body: tuple[Node, ...] = tuple(self.assign((*scope, *inside), inside) for _ in range(self.statements_left))
        else:
            body = (self.perfect(depth - 1, (*loops, var), scope),)
        return self.loop(var, body, loops, scope)

    def block(self, loops: tuple[str, ...], scope: tuple[str, ...]) -> tuple[Node, ...]:
        """One to three nodes inside the given loops; `scope` holds parameters and temporaries."""
        nodes: list[Node] = []
        if self.limits.temporaries and loops and self.chance(1, 6):
            name = f"t{self.temporaries}"
            self.temporaries += 1
            nodes.append(Temp(name, self.affine((*scope, *loops))))
            scope = (*scope, name)
        for position in range(self.number(1, 3)):
            if position and not self.statements_left:
                break
            nodes.append(self.node(loops, scope))
        return tuple(nodes)

    def node(self, loops: tuple[str, ...], scope: tuple[str, ...]) -> Node:
        depth = len(loops)
        # At the top, what hypothesis shrinks to is a loop: a program without one shows little.
        deeper = self.chance((8, 6, 4)[min(depth, 3) - 1], 10) if depth else not self.chance(1, 10)
        if depth < self.limits.max_depth and deeper:
            var = self.names[0][depth]
            return self.loop(var, self.block((*loops, var), scope), loops, scope)
        visible = (*scope, *loops)
        if self.limits.conditions and visible and self.chance(1, 5):
            then = (self.assign(visible, loops),)
            otherwise = (self.assign(visible, loops),) if self.chance(1, 3) else ()
            return If(self.condition(visible), then, otherwise)
        return self.assign(visible, loops)

    # --- loops

    def loop(self, var: str, body: tuple[Node, ...], loops: tuple[str, ...], scope: tuple[str, ...]) -> For:
        """A loop of few iterations: [low, high) upwards or downwards."""
        trips = self.draw(st.sampled_from((2, 3, 4, 1) if len(loops) < 2 else (2, 3, 1)))
        start = self.number(-1, 1)
        low: Int = Lit(start)
        kind = self.one_of("constant", "constant", "parameter", "triangle", "minmax", "division")
        visible = (*scope, *loops)
        constant = True
        high: Int = Lit(start + trips)
        if kind == "parameter" and self.parameters:
            high, constant = self.plus(Var(self.one_of(*self.parameters)), self.number(-1, 1)), False
        elif kind == "triangle" and self.limits.triangular and loops:
            constant = False
            var_of = Var(self.one_of(*loops))
            if self.chance(1, 2):
                high = self.plus(var_of, self.number(0, 3))
            else:
                low, high = self.plus(var_of, self.number(-1, 1)), self.plus(high, 1)
        elif kind == "minmax" and self.limits.min_max and visible and self.limits.triangular:
            constant = False
            other = self.plus(Var(self.one_of(*visible)), self.number(-1, 3))
            if self.chance(1, 2):
                high = MinMax("min", high, other)
            else:
                low = MinMax("max", low, other)
        elif kind == "division" and self.limits.division and visible and self.limits.triangular:
            constant = False
            high = DivMod("/", self.plus(Var(self.one_of(*visible)), self.number(0, 8)), self.number(2, 3))
        step = self.one_of("1", "1", "1", "2", "3", "-1", "-2") if self.limits.steps else "1"
        return self.written_loop(var, low, high, int(step), constant, body)

    def written_loop(self, var: str, low: Int, high: Int, step: int, constant: bool, body: tuple[Node, ...]) -> For:
        """The loop over [low, high) in one of the ways C has to write it; `!=` only where it must be met."""
        last = self.plus(high, -1)
        exact = constant and abs(step) == 1 and self.chance(1, 4)
        inclusive = self.chance(1, 2)
        if step > 0:
            if exact:
                return For(var, low, "!=", high, step, body)
            return For(var, low, "<=" if inclusive else "<", last if inclusive else high, step, body)
        before = self.plus(low, -1)
        if exact:
            return For(var, last, "!=", before, step, body)
        return For(var, last, ">=" if inclusive else ">", low if inclusive else before, step, body)

    # --- integers and conditions

    def plus(self, value: Int, constant: int) -> Int:
        if isinstance(value, Lit):
            return Lit(value.value + constant)
        if constant == 0:
            return value
        return Sum("+" if constant > 0 else "-", value, Lit(abs(constant)))

    def affine(self, visible: tuple[str, ...]) -> Int:
        """A small (quasi-)affine expression of visible integers."""
        if not visible:
            return Lit(self.number(0, 2))
        kinds = ["one", "one", "one", "one", "literal", "sum", "difference", "scale"]
        if self.limits.division:
            kinds += ["/", "%"]
        kind = self.one_of(*kinds)
        # Inner loops matter more than parameters: they stand last.
        weighted = (*visible, *visible[-2:], *visible[-4:])
        first = Var(self.one_of(*weighted))
        match kind:
            case "one":
                return self.plus(first, self.draw(st.sampled_from((0, 0, 0, 1, -1, 2))))
            case "literal":
                return Lit(self.number(0, 2))
            case "sum":
                return Sum("+", first, Var(self.one_of(*weighted)))
            case "difference":
                return Sum("-", first, Var(self.one_of(*weighted)))
            case "scale":
                return self.plus(Scale(self.draw(st.sampled_from((2, -1, 3))), first), self.number(0, 1))
            case _:
                return DivMod(kind, self.plus(first, self.number(-2, 2)), self.number(2, 3))

    def condition(self, visible: tuple[str, ...], nested: bool = False) -> Cond:
        kind = self.one_of("compare", "compare", "&&", "||", "!")
        if kind == "compare" or nested:
            op = self.one_of("<", "<=", ">", ">=", "==", "!=")
            right = self.affine(visible) if self.chance(1, 2) else Lit(self.number(-1, 3))
            return Compare(op, self.affine(visible), right)
        first = self.condition(visible, nested=True)
        return Not(first) if kind == "!" else Logic(kind, first, self.condition(visible, nested=True))

    # --- statements

    def assign(self, visible: tuple[str, ...], loops: tuple[str, ...]) -> Assign:
        self.statements_left = max(0, self.statements_left - 1)
        array = self.one_of(*self.arrays)
        ops = ["=", "=", "+=", "+=", "-=", "*="]
        if self.arrays[array].ctype == "int":
            ops += ["|=", "&=", "^="]
        op = self.one_of(*ops)
        # C forbids bit operations between int and floating types, so such a value stays int.
        value = IntValue(self.affine(visible)) if op in ("|=", "&=", "^=") else self.value(visible, 2)
        return Assign(array, self.subscripts(array, visible), op, value)

    def subscripts(self, array: str, visible: tuple[str, ...]) -> tuple[Int, ...]:
        return tuple(self.affine(visible) for _ in self.arrays[array].extents)

    def value(self, visible: tuple[str, ...], depth: int) -> Data:
        kinds = ["load", "load", "load", "number", "integer"]
        if depth:
            kinds += ["+", "-", "*", "*", "negate"]
        kind = self.one_of(*kinds)
        match kind:
            case "load":
                array = self.one_of(*self.arrays)
                return Load(array, self.subscripts(array, visible))
            case "number":
                return Num(self.number(-2, 3))
            case "integer":
                return IntValue(self.affine(visible))
            case "negate":
                return Negate(self.value(visible, depth - 1))
            case _:
                return Binary(kind, self.value(visible, depth - 1), self.value(visible, depth - 1))

    def spelled(self, extents: tuple[int, ...]) -> tuple[str, ...]:
        """Extents in C, some in terms of a parameter: right for the values the program is run with. Often ()."""
        if not self.chance(1, 3):
            return ()
        texts = []
        for extent in extents:
            if self.parameters and self.chance(1, 3):
                name = self.one_of(*self.parameters)
                rest = extent - self.parameters[name]
                texts.append(f"{name} + {rest}" if rest > 0 else f"{name} - {-rest}" if rest else name)
            else:
                texts.append(str(extent))
        return tuple(texts)
