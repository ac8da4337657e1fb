"""Reads the printed region: every statement with its domain, order, accesses, parallel and vector loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.base.records import dataclass
from polydl.model import isl
from polydl.model.combiners import of_assignment
from polydl.model.scop import BlackBox, Scop, Statement
from polydl.prove import finiteness as finite
from polydl.prove import kept_texts, printed_segments
from polydl.prove.addresses import strides_of
from polydl.prove.as_plain_c import Parsed
from polydl.prove.declared import declare
from polydl.prove.element_locals import without_kept
from polydl.prove.integers import (
    ZERO,
    Affine,
    Unreadable,
    affine,
    condition,
    loop,
    not_negative,
    number,
)
from polydl.prove.printed_calls import call
from polydl.prove.printed_program import ConcurrentLoop, Hint, Pointer, Program, Row, Team, domain
from polydl.prove.shared_rows import without_shares
from polydl.prove.structure_members import without_members
from polydl.prove.symbolic_values import place, symbol
from polydl.prove.syntax import (
    asks_for_room,
    check_bounded,
    generated_block,
    line_of,
    loop_start,
    loop_step,
    names_in,
    without_effect,
)
from polydl.prove.walk_state import Place, Waiting, Walk

_ASIDE = r"polydl\d*_(stream_end|tiles_begin|tiles_end)"
"""Functions of a thread's own, which touch no array."""


def _private(omp: str) -> list[str]:
    """The variables that a pragma says each iteration, or thread, has of its own."""
    found = re.search(r"private\(([^)]*)\)", omp)
    return re.split(r", *", found.group(1)) if found else []


def _shared_out(at: Place) -> bool:
    """Whether a loop around shares out the iterations of its body among the threads of the team."""
    return any(one.team is at.team for one in at.loops)


@dataclass(frozen=True, slots=True)
class _PartialSum:
    """A sum in an accumulator of its own, of a loop or of several that stand directly inside of each other."""

    name: str
    target: Any
    op: str
    begin: int
    """Place of the outermost loop in the time vectors."""


class Reader:
    """Walks one region."""

    def __init__(self, scop: Scop, parsed: Parsed) -> None:
        """Raises Unreadable for arrays without a known layout."""
        self._walk = Walk(scop, parsed, {name: strides_of(array) for name, array in scop.arrays.items()})
        self._asked: frozenset[str] = frozenset()

    def read(self) -> Program:
        """Raises Unreadable."""
        region = generated_block(self._walk.parsed.body)
        if region is None:
            raise Unreadable("the output has no region of generated code")
        if self._walk.scop.guards or self._walk.scop.expansions or self._walk.scop.conditions:
            self._walk.program.trusted["for other sizes and macros other code runs"] = None
        return self.piece(region)

    def piece(self, region: Any, sizes: Mapping[str, Affine] | None = None, where: Sequence[str] = ()) -> Program:
        """A block of generated code, which runs for `sizes`, known or parameters, where formulas hold. Raises
        Unreadable, Wrong."""
        env: dict[str, Any] = {g.name: number(g.value) for g in self._walk.scop.guards if not g.macro}
        env |= sizes or {}
        if any(array.members is not None for array in self._walk.scop.arrays.values()):
            region = without_members(region, self._walk.scop.arrays)
        region = without_kept(without_shares(self._walk, region), self._walk.scop.arrays)
        if self._walk.scop.views:
            self._walk.program.trusted["members of structures are read where the region begins"] = None
        self._block(region, Place(env, constraints=list(where)).inside())
        printed_segments.settle(self._walk)
        return self._walk.program

    # Statements

    def _block(self, node: Any, at: Place) -> None:
        """Statements one after the other; `at` is this block's own."""
        waiting = Waiting()
        items = node.block_items or [] if isinstance(node, c_ast.Compound) else [node]
        summed = self._partial_sum(items, len(at.time) + 1)
        for position, item in enumerate(items):
            now = replace(at, time=(*at.time, number(2 * position)))
            if summed is not None and isinstance(item, c_ast.Assignment):
                continue  # the partial sum's way to where it belongs: its additions are read as made there
            waiting = self._item(item, now, waiting, at, summed)

    def _item(self, item: Any, now: Place, waiting: Waiting, block: Place, summed: Any) -> Waiting:
        ends = isinstance(item, c_ast.FuncCall) and isinstance(item.name, c_ast.ID) and "stream_end" in item.name.name
        if waiting.omp == "parallel" and isinstance(item, c_ast.Compound) and now.team is None:
            self._team(item, now)
            return Waiting()
        if waiting.omp and not ends and not isinstance(item, c_ast.For):
            raise Unreadable(f"line {line_of(item)}: #pragma omp {waiting.omp} before something that is no loop")
        now = self._at_parts(now, waiting)
        match item:
            case c_ast.Decl():
                declare(self._walk, item, block)
                return waiting
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if re.fullmatch(r"polydl\d*_instance_\w+", name):
                return self._said(name, item.args.exprs if item.args is not None else [], now, waiting)
            case c_ast.FuncCall(name=c_ast.ID(name="polydl_omp")):
                return self._pragma(item, now, waiting)
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if re.fullmatch(_ASIDE, name):
                pass
            case c_ast.FuncCall() | c_ast.Assignment() if now.team is not None and not _shared_out(now):
                raise Unreadable(f"line {line_of(item)}: every thread runs it")
            case c_ast.FuncCall() if printed_segments.is_of_rows(item):
                printed_segments.of_rows(self._walk, item, block)
            case c_ast.FuncCall(name=c_ast.ID()):
                call(self._walk, item, now.inside(), waiting)
            case c_ast.Cast() | c_ast.EmptyStatement() | c_ast.ExprList():
                without_effect(item)
                return waiting
            case c_ast.Compound():
                self._braces(item, now.inside(), waiting)
            case c_ast.If():
                self._if(item, now, waiting)
            case c_ast.For():
                self._for(item, now, waiting, summed)
            case c_ast.Assignment():
                self._assign(item, now, waiting, summed)
            case _:
                raise Unreadable(f"line {line_of(item)}: a {type(item).__name__}")
        return Waiting()

    def _pragma(self, item: Any, now: Place, waiting: Waiting) -> Waiting:
        said: Any = item.args.exprs[0]
        if said.value.strip('"') == "barrier" and now.team is not None and not _shared_out(now):
            self._walk.waits(now, now.time, item)
            return waiting
        return replace(waiting, omp=said.value.strip('"'))

    def _team(self, block: Any, now: Place) -> None:
        """What one team of threads runs."""
        at = self._forked(now.inside())
        at.team, at.before = Team(len(at.time), line_of(block)), dict(at.env)
        self._block(block, at)

    def _forked(self, at: Place) -> Place:
        """Where threads begin: what one has declared for itself outside is not every thread's."""
        at.env = {name: one for name, one in at.env.items() if not self._walk.is_own(one)}
        return at

    def _braces(self, item: Any, at: Place, waiting: Waiting) -> None:
        """A block, or a statement that is kept as it is written or goes through a segment."""
        of = self._black_box(waiting)
        if of is None:
            self._block(item, at)
        elif printed_segments.is_sum(self._walk, item):
            printed_segments.summed(self._walk, item, at, waiting.hints[0])
        else:
            kept_texts.kept(self._walk, item, of, at, waiting.hints[0])

    def _black_box(self, waiting: Waiting) -> Statement | None:
        """The statement that is kept as it is written, or goes through a segment, which the next one is said to be."""
        named = [s for s in self._walk.scop.statements for hint in waiting.hints if s.name == hint.statement]
        one = named[0] if len(named) == len(waiting.hints) == 1 else None
        return one if one is not None and isinstance(one.body, BlackBox) else None

    def _at_parts(self, now: Place, waiting: Waiting) -> Place:
        """The place of a statement where pointers to parts of arrays mean elements of the arrays."""
        known = {pointer: self._walk.parts[pointer] for pointer in waiting.parts if pointer in self._walk.parts}
        begins = {array: waiting.parts[pointer] for pointer, array in known.items()}
        env = {pointer: Pointer(array, begins[array]) for pointer, array in known.items() if pointer in now.env}
        return replace(now, env={**now.env, **env}, parts={**now.parts, **begins}) if known else now

    def _said(self, name: str, arguments: Sequence[Any], at: Place, waiting: Waiting) -> Waiting:
        statement = name.partition("_instance_")[2]
        if statement == "begin":
            return waiting
        if statement == "part":
            return replace(waiting, parts={**waiting.parts, arguments[0].name: affine(arguments[1], at.env)})
        if statement == "row":
            row: list[tuple[str, Affine, Affine | None]] = []
            for k in range(len(arguments) % 3, len(arguments), 3):
                extent = affine(arguments[k + 2], at.env) if row else None
                row.append((arguments[k].name, affine(arguments[k + 1], at.env), extent))
            return replace(waiting, rows=(*waiting.rows, Row(tuple(row), back=len(arguments) % 3 == 1)))
        # In a row the loops' names stand for positions behind those of the loops around it.
        names = [name for row in waiting.rows for name, _, _ in row.loops]
        env = dict(at.env) | {name: Affine(((f"x{k}", 1),)) for k, name in enumerate(names)}
        hint = Hint(statement, tuple(affine(a, env) for a in arguments), waiting.rows)
        return replace(waiting, hints=[*waiting.hints, hint])

    def _if(self, item: Any, now: Place, waiting: Waiting) -> None:
        if (otherwise := asks_for_room(item.cond)) is not None:
            self._walk.program.trusted[otherwise] = None
            self._branch(item.iftrue, now, [], waiting)
            return
        if (products := finite.answered(item, self._asked)) is not None:
            self._walk.program.trusted[finite.TRUST] = None
            self._for(products[1], now, replace(waiting, omp=products[0]), None)
            return
        test = condition(item.cond, now.env)
        self._branch(item.iftrue, now, [test], waiting)
        if item.iffalse is not None:
            self._branch(item.iffalse, now, [f"(not {test})"], waiting)

    def _branch(self, node: Any, now: Place, tests: list[str], waiting: Waiting) -> None:
        at = now.inside()
        at.constraints += tests
        if domain("", at.depth, at.constraints).is_empty():
            return
        if isinstance(node, c_ast.Compound):
            self._block(node, at)
        else:
            self._item(node, replace(at, time=(*at.time, ZERO)), waiting, at, None)

    def _for(self, item: Any, now: Place, waiting: Waiting, summed: Any) -> None:
        if asked := finite.question(item, _private(waiting.omp)):
            self._asked = asked
            return
        at = now.inside()
        variable, first = loop_start(item)
        here = loop(at.depth)
        low = affine(first, at.env)
        step = loop_step(item, variable)
        check_bounded(item.cond, variable)
        at.env[variable] = here
        at.depth += 1
        at.constraints.append(not_negative(here.plus(low, -1)))
        at.constraints.append(condition(item.cond, at.env))
        if step != 1:
            at.constraints.append(f"(({here}) - ({low})) mod {step} = 0")
        position = len(at.time)
        at.time = (*at.time, here)
        at.loops = self._concurrent(item, at, position, waiting.omp, summed)
        if waiting.omp.startswith("parallel"):
            self._forked(at)
        body = item.stmt if isinstance(item.stmt, c_ast.Compound) else c_ast.Compound([item.stmt], item.coord)
        hints = [] if isinstance(item.stmt, c_ast.Compound) else waiting.hints
        if hints:
            raise Unreadable(f"line {line_of(item)}: an instance's name before a loop")
        if summed is not None:
            every = domain("", now.depth, now.constraints)
            if not every.is_subset(isl.project_onto(domain("", at.depth, at.constraints), range(now.depth))):
                raise Unreadable(f"line {line_of(item)}: a partial sum that may be of nothing")
            self._summing(body, at, summed)
        else:
            self._block(body, at)
        if waiting.omp.startswith("for") and not waiting.omp.endswith("nowait"):
            *around, last = now.time
            self._walk.waits(now, (*around, last.plus(number(1))), item)

    def _concurrent(self, item: Any, at: Place, position: int, omp: str, summed: Any) -> tuple[ConcurrentLoop, ...]:
        """The loops around the body, with what a pragma before this one says. Loops that are collapsed into one follow
        each other directly, so that their variables stand at every second place of the time vectors."""
        if not omp:
            return at.loops
        words = re.match(r"(parallel for|for(?! simd)|simd|parallel$)", omp)
        if words is None:
            raise Unreadable(f"line {line_of(item)}: #pragma omp {omp}")
        if words.group(1) == "parallel":
            raise Unreadable(f"line {line_of(item)}: every thread runs all of a loop")
        in_team = words.group(1) == "for"
        if in_team != (at.team is not None and not _shared_out(at)) and words.group(1) != "simd":
            raise Unreadable(f"line {line_of(item)}: #pragma omp {omp} where no team of threads shares it out")
        collapse = re.search(r"collapse\((\d+)\)", omp)
        times = tuple(position + 2 * k for k in range(int(collapse.group(1)) if collapse else 1))
        variable, first = loop_start(item)
        inner, counted = item, {variable}
        bounds = {*names_in(first), *names_in(item.cond)}
        for _ in times[1:]:
            body = inner.stmt
            items = body.block_items if isinstance(body, c_ast.Compound) else [body]
            if len(items) != 1 or not isinstance(items[0], c_ast.For):
                raise Unreadable(f"line {line_of(item)}: the loops to collapse do not follow each other")
            inner = items[0]
            variable, first = loop_start(inner)
            if not counted.isdisjoint((*names_in(first), *names_in(inner.cond))):
                raise Unreadable(f"line {line_of(inner)}: a loop to collapse that is longer in some iterations")
            bounds |= {*names_in(first), *names_in(inner.cond)}
            counted.add(variable)
        reduction = re.search(r"reduction\(\S+ ?: ?([^)]*)\)", omp)
        self._walk.loops += 1
        made = ConcurrentLoop(
            self._walk.loops,
            times,
            "vector" if words.group(1) == "simd" else "parallel",
            frozenset(_private(omp)),
            frozenset(re.split(r", *", reduction.group(1)) if reduction else ()),
            line_of(item),
            at.team if in_team else None,
            "schedule(static" in omp and all(at.env.get(n, "") == at.before.get(n) for n in bounds - counted),
        )
        return (*at.loops, made)

    def _assign(self, item: Any, now: Place, waiting: Waiting, summed: Any) -> None:
        hint = waiting.hints[0] if len(waiting.hints) == 1 else None
        value = symbol(item.rvalue, now.env, self._walk.strides)
        self._walk.add(now, "assignment", item.op, value, place(item.lvalue, now.env, self._walk.strides), hint, item)

    # A sum in an accumulator of its own

    def _partial_sum(self, items: Sequence[Any], begin: int) -> _PartialSum | None:
        """What `double s = 0; for (…) s += e; target += s;` adds up; `begin`: the loop's place in the time vectors."""
        declared = [i for i in items if isinstance(i, c_ast.Decl) and re.fullmatch(r"polydl\d*_sum", i.name or "")]
        ends = [i for i in items if isinstance(i, c_ast.Assignment)]
        if not declared:
            return None
        name = declared[0].name
        loops = [i for i in items if isinstance(i, c_ast.For)]
        init = declared[0].init
        neutral = str(CGenerator().visit(init)) if init is not None else None
        fits = len(declared) == len(ends) == len(loops) == 1
        if not fits or getattr(ends[0].rvalue, "name", None) != name or items.index(loops[0]) > items.index(ends[0]):
            raise Unreadable(f"line {line_of(declared[0])}: a partial sum of another form")
        row = of_assignment(ends[0].op)
        if row is None or neutral != row.neutral:
            raise Unreadable(f"line {line_of(declared[0])}: a partial sum that starts from {neutral}")
        return _PartialSum(name, ends[0].lvalue, ends[0].op, begin)

    def _summing(self, body: Any, at: Place, summed: _PartialSum) -> None:
        """The additions of the innermost of the loops, as made to the target. Their order is as free as that of lanes,
        whatever the loops are marked with."""
        row = of_assignment(summed.op)
        adding = f"{row.symbol}=" if row is not None else ""
        hints: list[Hint] = []
        for item in body.block_items or []:
            now = replace(at, time=(*at.time, ZERO))
            if isinstance(item, c_ast.FuncCall) and "_instance_" in item.name.name:
                hints = self._said(item.name.name, item.args.exprs, at, Waiting()).hints
                continue
            if isinstance(item, c_ast.For) and len(body.block_items) == 1:
                self._for(item, now, Waiting(), summed)
                continue
            right = isinstance(item, c_ast.Assignment) and isinstance(item.lvalue, c_ast.ID)
            if not right or item.lvalue.name != summed.name or item.op != adding or len(hints) != 1:
                raise Unreadable(f"line {line_of(item)}: a partial sum of another form")
            value = symbol(item.rvalue, at.env, self._walk.strides)
            target = place(summed.target, at.env, self._walk.strides)
            places, own = tuple(range(summed.begin, len(at.time), 2)), frozenset({summed.name})
            kept = ConcurrentLoop(0, places, "vector", reduction=own, line=line_of(item))
            now.loops = (*(entry for entry in at.loops if entry.reduction != own), kept)
            self._walk.add(now, "summed", summed.op, value, target, hints[0], item)
