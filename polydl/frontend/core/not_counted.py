"""Why nothing counts a loop, for people."""

from __future__ import annotations

from pycparser import c_ast
from pycparser.c_ast import Node

from polydl.base.errors import InputError
from polydl.frontend.core.loop_forms import Loop, begun_by, step_of
from polydl.frontend.lower.state import State
from polydl.frontend.meaning.affine import NotAffine, constant
from polydl.frontend.meaning.lookup import Settings
from polydl.frontend.meaning.symbols import Scope, Symbol, mentions
from polydl.model.scop import Storage

NO_START = "the loop does not initialise its variable"
WRITE = "write for (i = a; i < b; i += c)"
_SEVERAL = "count one variable in the loop, and derive the others from it in the body"


def refused(name: str, declared: bool, found: Symbol, settings: Settings, in_fragment: bool) -> tuple[str, str] | None:
    """Why a variable cannot count a loop, and the way out; None when it can. `declared`: by the loop.

    Inside a pragma's loops (`in_fragment`) the variables exist in no scope of the program.
    """
    if not found.is_integer:
        return f"the loop variable '{name}' is not an integer", "declare it as int"
    if found.pinned:
        return f"the loop variable '{name}' is {found.pinned}", "declare it in the loop"
    if not declared and not in_fragment:
        if found.storage is Storage.GLOBAL:
            return f"the loop variable '{name}' is global", "declare it in the loop"
        if name in settings.escaping and found.storage is Storage.PARAMETER:
            return f"the function parameter '{name}' is written in the scop", "use a local loop variable"
        if name in settings.escaping:
            return (
                f"the value of the loop variable '{name}' is used after the scop",
                f"declare it in the loop, for (int {name} = ...), and give '{name}' behind the loop what it is then",
            )
    if name in settings.data:
        return f"'{name}' is a loop variable here and holds data elsewhere in the scop", "use two names"
    return None


def complaint(loop: Loop, state: State) -> InputError:
    """Why nothing counts a `for` loop."""
    places, node = state.places, loop.node
    if loop.condition is None:
        return places.error("the loop has no condition", node, WRITE, topic="loop-headers")
    begun = [name for part in loop.first if (name := begun_by(part)) is not None]
    if len(begun) > 1:
        if len([name for name in begun if name in mentions(loop.condition)]) != 1:
            return several(loop, state)
        begun = [name for name in begun if name in mentions(loop.condition)]
    if not begun and loop.header is not node:
        why = "the loop initialises more than one variable, or none"
        return places.error(why, loop.header, WRITE, topic="loop-headers")
    steps = [*loop.test_effects, *loop.step]
    targets = [target(part) for part in steps if target(part) is not None]
    name = begun[0] if begun else targets[0] if targets else None
    if name is None or (not begun and state.environment.get(name) is None):
        return places.error(NO_START, node, WRITE, topic="loop-headers")
    if not steps:
        return places.error("the loop has no increment", node, WRITE, topic="loop-headers")
    found = state.scope.find(name)
    for part in loop.first if found is None else ():
        found = state.scope.declare(part, Storage.REGION, constant) if begun_by(part) == name else found
    if name in state.settings.data and name in loop.inside:
        why = f"what the loop counts with, '{name}', is changed in its body where data decide it"
        hint = "where that stays, leave the loop out of the region; or count in another variable"
        return places.error(why, loop.header, hint, topic="loop-variables")
    if found is not None:
        reason = refused(name, name in _declared(loop), found, state.settings, state.in_fragment)
        if reason is not None:
            return places.error(reason[0], loop.header, reason[1], topic="loop-variables")
    for part in steps:
        if target(part) == name:
            return not_stepped(part, name, state)
    if len(steps) == 1:
        return not_stepped(steps[0], name, state)
    return places.error(f"the loop does not count '{name}'", node, _SEVERAL, topic="loop-headers")


def moves(loop: Loop, scope: Scope) -> bool:
    """Whether a loop has a condition, and steps nothing but by products, quotients and shifts, or numbers that are no
    integers: it comes to an end as far as one can see."""
    for part in loop.step:
        name = target(part)
        found = None if name is None else scope.find(name)
        value = part.rvalue if isinstance(part, c_ast.Assignment) and part.op == "=" else None
        op = value.op if isinstance(value, c_ast.BinaryOp) else str(getattr(part, "op", "")).removesuffix("=")
        floats = _floating(loop, name) if found is None else found.ctype.is_float
        if op not in ("*", "/", "<<", ">>") and not floats:
            return False
    return loop.condition is not None and bool(loop.step)


def _floating(loop: Loop, name: str | None) -> bool:
    """Whether a loop declares a variable as a floating-point number."""
    declared = (part for part in loop.first if isinstance(part, c_ast.Decl) and part.name == name)
    return any(Scope().resolve(part.type)[0].is_float for part in declared)


def several(loop: Loop, state: State) -> InputError:
    """That no one variable counts a loop."""
    why = "the loop initialises more than one variable"
    return state.places.error(why, loop.header, _SEVERAL, topic="loop-headers")


def not_stepped(node: Node, name: str, state: State) -> InputError:
    """Why a statement is no step of a loop's variable."""

    def number_of(expr: Node) -> int | None:
        try:
            return state.evaluator.number(expr)
        except NotAffine:
            return None

    step = step_of(node) if isinstance(node, c_ast.Assignment) else None
    if step is None or step.name != name:
        why = f"the increment does not add a constant to '{name}'"
        hint = f"write {name}++ or {name} += c; loops inside of one that stays as it is are optimized by themselves"
        return state.places.error(why, node, hint, topic="loop-headers")
    if number_of(step.by) == 0:
        why, hint = f"the step of '{name}' is zero: the loop never ends", "use another step"
        return state.places.error(why, node, hint, topic="loop-headers")
    why, hint = f"the step of '{name}' is not constant", "use a step that is a constant"
    return state.places.error(why, step.by, hint, topic="loop-headers")


def target(part: Node) -> str | None:
    """The variable that a part of a header changes; None for other expressions."""
    target = getattr(part, "lvalue", None) or getattr(part, "expr", None)
    return str(target.name) if isinstance(target, c_ast.ID) else None


def _declared(loop: Loop) -> set[str]:
    return {part.name for part in loop.first if isinstance(part, c_ast.Decl)}
