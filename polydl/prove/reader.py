"""Reads the printed region: every statement with its domain, order, accesses, parallel and vector loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from pycparser import c_ast

from polydl.model import isl
from polydl.model.scop import Scop, Storage
from polydl.model.types import spelled
from polydl.prove import finite
from polydl.prove.addresses import strides_of
from polydl.prove.calls import (
    Contract,
    Meant,
    PackContract,
    argument,
    finish,
    kernel_contract,
    meant_step,
    pack_contract,
    row_step,
)
from polydl.prove.forms import check_passed
from polydl.prove.integers import (
    WHERE,
    ZERO,
    Affine,
    Unreadable,
    Wrong,
    affine,
    condition,
    loop,
    not_negative,
    number,
    product,
)
from polydl.prove.kept import without_kept
from polydl.prove.members import without_members
from polydl.prove.packed_places import PLAIN, places, steps_of
from polydl.prove.program import Buffer, ConcurrentLoop, Hint, Pointer, Printed, Program, domain
from polydl.prove.symbols import Literal, Load, Operation, conversion, place, pointer, symbol
from polydl.prove.syntax import (
    bytes_per_thread,
    check_bounded,
    first_number,
    generated_block,
    line_of,
    loop_start,
    loop_step,
    names_in,
    without_effect,
)
from polydl.prove.text import MEANING, Parsed
from polydl.prove.words import check_operands, product_named

MOST_STATEMENTS = 400
"""Printed statements beyond which a proof would take too long."""


@dataclass(slots=True)
class _Place:
    """Where the walk is."""

    env: dict[str, Any]
    depth: int = 0
    constraints: list[str] = field(default_factory=list)
    time: tuple[Affine, ...] = ()
    loops: tuple[ConcurrentLoop, ...] = ()

    def inside(self) -> _Place:
        made = replace(self, env=dict(self.env), constraints=list(self.constraints))
        made.env[WHERE] = made.holds
        return made

    def holds(self, formula: str) -> bool:
        """Whether it holds wherever the walk comes here."""
        return _holds(formula, self.depth, tuple(self.constraints))


@lru_cache(4096)
def _holds(formula: str, depth: int, constraints: tuple[str, ...]) -> bool:
    return domain("", depth, [*constraints, f"(not ({formula}))"]).is_empty()


@dataclass(slots=True)
class _Waiting:
    """Pragmas and markers that stand before a statement and hold for it."""

    hints: list[Hint] = field(default_factory=list)
    row: tuple[tuple[str, Affine, Affine | None], ...] = ()
    omp: str = ""


def _private(omp: str) -> list[str]:
    """The variables that a pragma says each iteration, or thread, has of its own."""
    found = re.search(r"private\(([^)]*)\)", omp)
    return re.split(r", *", found.group(1)) if found else []


class Reader:
    """Walks one region."""

    def __init__(self, scop: Scop, parsed: Parsed) -> None:
        """Raises Unreadable for arrays without a known layout."""
        self.scop = scop
        self.parsed = parsed
        self.strides = {name: strides_of(array) for name, array in scop.arrays.items()}
        self.program = Program()
        self._loops = 0
        self._steps = 0
        self._reserved = 0
        self._asked: frozenset[str] = frozenset()

    def read(self) -> Program:
        """Raises Unreadable."""
        region = generated_block(self.parsed.body)
        if region is None:
            raise Unreadable("the output has no region of generated code")
        if self.scop.guards or self.scop.expansions or self.scop.conditions:
            self.program.trusted["for other sizes and macros other code runs"] = None
        return self.piece(region)

    def piece(self, region: Any, sizes: Mapping[str, Affine] | None = None, where: Sequence[str] = ()) -> Program:
        """A block of generated code, which runs for `sizes`, known or parameters, where formulas hold. Raises
        Unreadable, Wrong."""
        env: dict[str, Any] = {g.name: number(g.value) for g in self.scop.guards if not g.macro}
        env |= sizes or {}
        if any(array.members is not None for array in self.scop.arrays.values()):
            region = without_members(region, self.scop.arrays)
        region = without_kept(region, self.scop.arrays)
        if self.scop.views:
            self.program.trusted["members of structures are read where the region begins"] = None
        self._block(region, _Place(env, constraints=list(where)).inside())
        return self.program

    # Statements

    def _block(self, node: Any, at: _Place) -> None:
        """Statements one after the other; `at` is this block's own."""
        waiting = _Waiting()
        items = node.block_items or [] if isinstance(node, c_ast.Compound) else [node]
        summed = self._partial_sum(items)
        for position, item in enumerate(items):
            now = replace(at, time=(*at.time, number(position)))
            if summed is not None and isinstance(item, c_ast.Assignment):
                continue  # the partial sum's way to where it belongs: its additions are read as made there
            waiting = self._item(item, now, waiting, at, summed)

    def _item(self, item: Any, now: _Place, waiting: _Waiting, block: _Place, summed: Any) -> _Waiting:
        ends = isinstance(item, c_ast.FuncCall) and isinstance(item.name, c_ast.ID) and "stream_end" in item.name.name
        if waiting.omp and not ends and not isinstance(item, c_ast.For):
            raise Unreadable(f"line {line_of(item)}: #pragma omp {waiting.omp} before something that is no loop")
        match item:
            case c_ast.Decl():
                self._declare(item, block)
                return waiting
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if re.fullmatch(r"polydl\d*_instance_\w+", name):
                return self._said(name, item.args.exprs if item.args is not None else [], now, waiting)
            case c_ast.FuncCall(name=c_ast.ID(name="polydl_omp")):
                return replace(waiting, omp=item.args.exprs[0].value.strip('"'))
            case c_ast.FuncCall(name=c_ast.ID()):
                if not re.fullmatch(r"polydl\d*_stream_end", item.name.name):
                    self._call(item, now.inside(), waiting)
            case c_ast.Cast() | c_ast.EmptyStatement() | c_ast.ExprList():
                without_effect(item)
                return waiting
            case c_ast.Compound():
                self._block(item, now.inside())
            case c_ast.If():
                self._if(item, now, waiting)
            case c_ast.For():
                self._for(item, now, waiting, summed)
            case c_ast.Assignment():
                self._assign(item, now, waiting, summed)
            case _:
                raise Unreadable(f"line {line_of(item)}: a {type(item).__name__}")
        return _Waiting()

    def _said(self, name: str, arguments: Sequence[Any], at: _Place, waiting: _Waiting) -> _Waiting:
        statement = name.partition("_instance_")[2]
        if statement == "begin":
            return waiting
        if statement == "row":
            row = []
            for k in range(0, len(arguments), 3):
                extent = None if k == 0 else affine(arguments[k + 2], at.env)
                row.append((arguments[k].name, affine(arguments[k + 1], at.env), extent))
            return replace(waiting, row=tuple(row))
        # In a row the loops' names stand for positions behind those of the loops around it.
        env = dict(at.env) | {name: Affine(((f"x{k}", 1),)) for k, (name, _, _) in enumerate(waiting.row)}
        hint = Hint(statement, tuple(affine(a, env) for a in arguments), waiting.row)
        return replace(waiting, hints=[*waiting.hints, hint])

    def _declare(self, item: Any, at: _Place) -> None:
        """A declaration; its effect is on the block that it stands in."""
        name, text = item.name, names_in(item.init)
        if name in self.scop.arrays:
            if self.scop.arrays[name].storage is Storage.SCRATCH and at.depth == 0:
                self._buffer(name, item, False, self.program.scratch)
                return
            inside = self.scop.arrays[name].storage is Storage.REGION and at.depth == 0
            if item.init is not None or not inside:
                raise Unreadable(f"line {line_of(item)}: the declaration of {name}")
            return
        if isinstance(item.type, c_ast.PtrDecl):
            if any(re.fullmatch(r"polydl\d*_scratch", n) for n in text):
                self.program.memory[False] = first_number(item.init.args.exprs[0])
                self._reserved = bytes_per_thread(item.init.args.exprs[0])
                return
            own, memory = (any(re.fullmatch(rf"polydl\d*_{w}", n) for n in text) for w in ("own", "memory"))
            if re.fullmatch(r"polydl\d*_own", name):
                if first_number(item.init.right) < self.program.memory[False]:
                    raise Wrong(f"line {line_of(item)}: the threads' copies overlap the shared ones")
                return
            if own or memory:
                self._buffer(name, item, own, self.program.buffers)
                at.env[name] = Pointer(name, ZERO)
                return
        elif isinstance(item.type, c_ast.TypeDecl):
            if re.fullmatch(r"polydl\d*_each", name):
                self.program.memory[True] = affine(item.init, {}).constant
                if self.program.memory[True] > self._reserved:
                    raise Wrong(f"line {line_of(item)}: the threads' copies do not fit into their memory")
                return
            if item.init is None or re.fullmatch(r"polydl\d*_sum", name) or finite.asks(item):
                return
            at.env[name] = affine(item.init, at.env)
            return
        raise Unreadable(f"line {line_of(item)}: the declaration of {name}")

    def _buffer(self, name: str, item: Any, own: bool, among: dict[str, Buffer]) -> None:
        init = item.init.expr if isinstance(item.init, c_ast.Cast) else item.init
        if not (isinstance(init, c_ast.BinaryOp) and isinstance(init.right, c_ast.Constant)):
            raise Unreadable(f"line {line_of(item)}: the place of the buffer {name}")
        element = spelled(" ".join(item.type.type.type.names))
        if element is None:
            raise Unreadable(f"line {line_of(item)}: the type of the buffer {name}")
        found = Buffer(name, own, affine(init.right, {}).constant, element.bytes)
        if among.setdefault(name, found) != found:
            raise Unreadable(f"two buffers are called {name}")

    def _if(self, item: Any, now: _Place, waiting: _Waiting) -> None:
        if isinstance(item.cond, c_ast.ID) and re.fullmatch(r"polydl\d*_memory", item.cond.name):
            self.program.trusted["where there is no memory for copies, the loops as they were written run"] = None
            self._branch(item.iftrue, now, [], waiting)
            return
        if (products := finite.answered(item, self._asked)) is not None:
            self.program.trusted[finite.TRUST] = None
            self._for(products[1], now, replace(waiting, omp=products[0]), None)
            return
        test = condition(item.cond, now.env)
        self._branch(item.iftrue, now, [test], waiting)
        if item.iffalse is not None:
            self._branch(item.iffalse, now, [f"(not {test})"], waiting)

    def _branch(self, node: Any, now: _Place, tests: list[str], waiting: _Waiting) -> None:
        at = now.inside()
        at.constraints += tests
        if domain("", at.depth, at.constraints).is_empty():
            return
        if isinstance(node, c_ast.Compound):
            self._block(node, at)
        else:
            self._item(node, replace(at, time=(*at.time, ZERO)), waiting, at, None)

    def _for(self, item: Any, now: _Place, waiting: _Waiting, summed: Any) -> None:
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

    def _concurrent(self, item: Any, at: _Place, position: int, omp: str, summed: Any) -> tuple[ConcurrentLoop, ...]:
        """The loops around the body, with what a pragma before this one says. Loops that are collapsed into one follow
        each other directly, so that their variables stand at every second place of the time vectors."""
        if not omp:
            return at.loops
        words = re.match(r"(parallel for|simd|parallel$)", omp)
        if words is None:
            raise Unreadable(f"line {line_of(item)}: #pragma omp {omp}")
        if words.group(1) == "parallel":
            raise Unreadable(f"line {line_of(item)}: every thread runs all of a loop")
        collapse = re.search(r"collapse\((\d+)\)", omp)
        times = tuple(position + 2 * k for k in range(int(collapse.group(1)) if collapse else 1))
        inner, counted = item, {loop_start(item)[0]}
        for _ in times[1:]:
            body = inner.stmt
            items = body.block_items if isinstance(body, c_ast.Compound) else [body]
            if len(items) != 1 or not isinstance(items[0], c_ast.For):
                raise Unreadable(f"line {line_of(item)}: the loops to collapse do not follow each other")
            inner = items[0]
            variable, first = loop_start(inner)
            if not counted.isdisjoint((*names_in(first), *names_in(inner.cond))):
                raise Unreadable(f"line {line_of(inner)}: a loop to collapse that is longer in some iterations")
            counted.add(variable)
        reduction = re.search(r"reduction\(\S+ ?: ?([^)]*)\)", omp)
        self._loops += 1
        made = ConcurrentLoop(
            self._loops,
            times,
            "vector" if words.group(1) == "simd" else "parallel",
            frozenset(_private(omp)),
            frozenset(re.split(r", *", reduction.group(1)) if reduction else ()),
            line_of(item),
        )
        return (*at.loops, made)

    def _assign(self, item: Any, now: _Place, waiting: _Waiting, summed: Any) -> None:
        hint = waiting.hints[0] if len(waiting.hints) == 1 else None
        value = symbol(item.rvalue, now.env, self.strides)
        self._add(now, "assignment", item.op, value, place(item.lvalue, now.env, self.strides), hint, item)

    def _add(
        self,
        at: _Place,
        kind: str,
        op: str,
        value: Any,
        target: Pointer | None,
        hint: Hint | None,
        item: Any,
        call: int | None = None,
        *,
        lanes: bool = False,
    ) -> Printed:
        """One statement more; `call`: it is part of one, that many places of the time are around it."""
        number_ = len(self.program.statements)
        if number_ >= MOST_STATEMENTS:
            raise Unreadable(f"more than {MOST_STATEMENTS} printed statements")
        where = domain(f"T{number_}", at.depth, at.constraints)
        made = Printed(
            number_, at.depth, where, at.time, at.loops, kind, op, value, target, hint, line_of(item),
            self._steps if call is not None else None, call or 0, lanes,
        )  # fmt: skip
        self.program.statements.append(made)
        return made

    # A sum in an accumulator of its own

    def _partial_sum(self, items: Sequence[Any]) -> tuple[str, Any, str] | None:
        """(variable, target, operator) of `double s = 0; for (…) s += e; target += s;`."""
        declared = [i for i in items if isinstance(i, c_ast.Decl) and re.fullmatch(r"polydl\d*_sum", i.name or "")]
        ends = [i for i in items if isinstance(i, c_ast.Assignment)]
        if not declared:
            return None
        name = declared[0].name
        loops = [i for i in items if isinstance(i, c_ast.For)]
        neutral = declared[0].init
        neutral = neutral.value if isinstance(neutral, c_ast.Constant) else None
        fits = len(declared) == len(ends) == len(loops) == 1 and isinstance(ends[0].rvalue, c_ast.ID)
        if not fits or ends[0].rvalue.name != name or items.index(loops[0]) > items.index(ends[0]):
            raise Unreadable(f"line {line_of(declared[0])}: a partial sum of another form")
        if neutral != {"+=": "0", "-=": "0", "*=": "1"}.get(ends[0].op):
            raise Unreadable(f"line {line_of(declared[0])}: a partial sum that starts from {neutral}")
        return name, ends[0].lvalue, ends[0].op

    def _summing(self, body: Any, at: _Place, summed: tuple[str, Any, str]) -> None:
        """The loop's additions, as made to the target."""
        name, target, op = summed
        hints: list[Hint] = []
        for item in body.block_items or []:
            if isinstance(item, c_ast.FuncCall) and "_instance_" in item.name.name:
                hints = self._said(item.name.name, item.args.exprs, at, _Waiting()).hints
                continue
            right = isinstance(item, c_ast.Assignment) and isinstance(item.lvalue, c_ast.ID)
            if not right or item.lvalue.name != name or item.op != ("*=" if op == "*=" else "+=") or len(hints) != 1:
                raise Unreadable(f"line {line_of(item)}: a partial sum of another form")
            value = symbol(item.rvalue, at.env, self.strides)
            now = replace(at, time=(*at.time, ZERO))
            kept = ConcurrentLoop(0, (len(at.time) - 1,), "vector", reduction=frozenset({name}), line=line_of(item))
            now.loops = tuple(kept if entry.reduction == {name} else entry for entry in at.loops)
            self._add(now, "summed", op, value, place(target, at.env, self.strides), hints[0], item)

    # Calls

    def _call(self, item: Any, at: _Place, waiting: _Waiting) -> None:
        name = item.name.name
        arguments = item.args.exprs if item.args is not None else []
        if name in self.parsed.kernels:
            self._kernel(item, kernel_contract(self.parsed, name), arguments, at)
        elif name in self.parsed.packs:
            self._pack(item, pack_contract(self.parsed, name), arguments, at)
        elif re.fullmatch(r"polydl\d*_\w+", name) and f"{name}{MEANING}" in self.parsed.functions:
            self._row(item, arguments, at, waiting, Meant(name))
        elif re.fullmatch(r"polydl\d*_row_\w+", name):
            self._row(item, arguments, at, waiting, None)
        else:
            raise Unreadable(f"line {line_of(item)}: a call of {name}")

    def _count(self, at: _Place, extent: Affine, first: Affine = ZERO) -> Affine:
        """A loop more, inside of a call; `at` is changed."""
        here = loop(at.depth)
        last = first.plus(extent).plus(number(-1))
        at.constraints += [not_negative(here.plus(first, -1)), not_negative(last.plus(here, -1))]
        at.depth += 1
        return here

    def _kernel(self, item: Any, contract: Contract, arguments: Sequence[Any], at: _Place) -> None:
        self._steps += 1
        m, n = (affine(a, at.env) for a in arguments[:2])
        a, b, c = (pointer(x, at.env, self.strides) for x in arguments[2:5])
        bound = {
            name: self._operand(name, value, at)
            for name, value in zip(contract.parameters[5:], arguments[5:], strict=True)
        }
        extents = [argument(e, f"extent{k}", bound) for k, e in enumerate(contract.extents)]
        self._whole(item, contract.name, at, m, n, contract)
        self.program.use(contract, at.depth, at.constraints, (m, n))
        row, column = self._count(at, m), self._count(at, n)
        result = finish(self.parsed, contract, self.strides, (a, b, c), bound, row, column)
        inner = at.inside()
        counters = [self._count(inner, e) for e in extents]
        group = self._group(contract, a, b)
        a_at = a.offset.plus(product(row, argument(contract.a_row, "a_m", bound)))
        b_at = b.offset.plus(column)
        for k, (r, a_step, b_step) in enumerate(zip(counters, contract.a_steps, contract.b_steps, strict=True)):
            a_at = a_at.plus(product(r, argument(a_step, f"a_stride{k}", bound)))
            b_at = b_at.plus(product(r, argument(b_step, f"b_stride{k}", bound)))
        # They are named when their instances are looked for (polydl.prove.unfold).
        value, target = result
        start = replace(at, time=(*at.time, ZERO, row, column))
        self._add(start, "kernel", "=", value, target, None, item, len(at.time))
        begins = b.offset.plus(column)
        if group > 1:  # a word is so many places of its buffer
            counters.append(self._count(inner, number(group)))
            a_at, b_at = (where.times(group).plus(counters[-1]) for where in (a_at, b_at))
        made = replace(inner, time=(*inner.time, ZERO, row, column, *counters))
        factors = Operation("*", (self._factor(contract, a.base, a_at), self._factor(contract, b.base, b_at)))
        self._add(made, "product", "+=", factors, target, None, item, len(at.time))
        if contract.product and product_named(contract.product).correction:
            begins = begins.plus(product(extents[0], argument(contract.b_steps[0], "b_stride0", bound))).times(group)
            first = Load(Pointer(b.base, begins))
            self._add(start, "start", "=", first, None, None, item, len(at.time))

    def _group(self, contract: Contract, a: Pointer, b: Pointer) -> int:
        """How many elements a word has that a kernel reads. Raises Wrong."""
        words = self.program.words
        if contract.product:
            check_operands(product_named(contract.product), words.get(a.base), words.get(b.base))
            return product_named(contract.product).group
        if any(base in words and words[base].group > 1 for base in (a.base, b.base)):
            raise Wrong(f"{contract.name} takes words for elements")
        return 1

    def _factor(self, contract: Contract, base: str, at: Affine) -> Any:
        """An element that a kernel multiplies: one of a copy that converts has the type of the sum."""
        load = Load(Pointer(base, at))
        if base not in self.program.words:
            return load
        definition = self.parsed.functions[contract.name]
        output = next(p for p in definition.decl.type.args.params if p.name == "C")
        element = spelled(" ".join(output.type.type.type.names))
        if element is None:
            raise Unreadable(f"the type of the sums of {contract.name}")
        return Operation(conversion(element.name), (load,))

    def _operand(self, name: str, node: Any, at: _Place) -> Any:
        """An argument of a kernel or of a copy: an extent or a stride, an address, or a value. Raises Unreadable."""
        if re.fullmatch(r"width|[ac]_m|extent\d+|(?:[ab]_|width_)?stride\d*", name):
            return affine(node, at.env)
        try:
            return pointer(node, at.env, self.strides)
        except Unreadable:
            return symbol(node, at.env, self.strides)

    def _whole(self, item: Any, name: str, at: _Place, m: Affine, n: Affine, contract: Contract) -> None:
        """A kernel takes at most its block; one without remainders the whole of it, whatever it is told."""
        body = self.parsed.functions[name].body.block_items if name in self.parsed.functions else []
        always = bool(body) and isinstance(body[0], c_ast.ExprList)
        relation = "!=" if always else ">"
        wrong = f"(({m}) {relation} {contract.m} or ({n}) {relation} {contract.n})"
        if not body or not domain("", at.depth, [*at.constraints, wrong]).is_empty():
            raise Wrong(f"line {line_of(item)}: a block of another size than {name}'s")

    def _pack(self, item: Any, contract: PackContract, arguments: Sequence[Any], at: _Place) -> None:
        self._steps += 1
        bound = {name: self._operand(name, a, at) for name, a in zip(contract.parameters, arguments, strict=True)}
        width, source, packed = argument(None, "width", bound), bound["source"], bound["packed"]
        if not isinstance(source, Pointer) or not isinstance(packed, Pointer):
            raise Unreadable(f"line {line_of(item)}: what {contract.name} is given")
        if packed.base not in self.program.buffers:
            raise Wrong(f"line {line_of(item)}: a copy into {packed.base}")
        extents = [argument(e, f"extent{k}", bound) for k, e in enumerate(contract.extents)]
        self.program.use(contract, at.depth, at.constraints, (width, *extents))
        words = contract.words or PLAIN
        if contract.words is not None:
            if source.base not in self.scop.arrays:
                raise Unreadable(f"line {line_of(item)}: a copy of {source.base}")
            words.check(self.scop.arrays[source.base].element)
            if self.program.words.setdefault(packed.base, words) != words:
                raise Unreadable(f"line {line_of(item)}: copies of several kinds in {packed.base}")
        elif packed.base in self.program.words:
            raise Unreadable(f"line {line_of(item)}: copies of several kinds in {packed.base}")
        steps = steps_of(words, extents)
        w = self._count(at, width)
        if steps.terms and not domain("", at.depth, [*at.constraints, f"({w}) >= {contract.block}"]).is_empty():
            raise Unreadable(f"line {line_of(item)}: panels of unknown length")
        outside, before = at.inside(), len(at.time)
        counters = [self._count(at, e) for e in extents]
        to, ends = places(contract, packed.offset, steps, w, counters, extents)
        value = source.offset.plus(product(w, argument(contract.width_stride, "width_stride", bound)))
        for k, (r, stride) in enumerate(zip(counters, contract.strides, strict=True)):
            value = value.plus(product(r, argument(stride, f"stride{k}", bound)))
        at.time = (*at.time, w, *counters)
        load = Load(Pointer(source.base, value))
        self._add(at, "copy", "=", load, Pointer(packed.base, to), None, item, before)
        if words.group > 1:
            filled = replace(outside.inside(), time=at.time)
            for k, size in enumerate(extents):
                grouped = k == words.grouped
                here = self._count(filled, words.extent(k, size).times(words.group) if grouped else size)
                filled.constraints += [f"({here}) >= ({size})"] if grouped else []
            self._add(filled, "zeros", "=", Literal("0"), Pointer(packed.base, to), None, item, before)
        if words.sums:  # at a time of their own: which one of the call's is no matter
            outside.time = (*outside.time, w, number(-1))
            self._add(outside, "sums", "=", Literal("0"), Pointer(packed.base, ends), None, item, before)

    def _row(self, item: Any, arguments: Sequence[Any], at: _Place, waiting: _Waiting, meant: Meant | None) -> None:
        name = item.name.name
        self._steps += 1
        length = affine(arguments[0], at.env)
        operands: list[Any] = []
        definition = self.parsed.functions.get(name)
        if definition is None:
            raise Unreadable(f"line {line_of(item)}: the function {name} cannot be read")
        parameters = definition.decl.type.args.params[1:]
        for one, given in zip(parameters, arguments[1:], strict=True):
            if isinstance(one.type, c_ast.PtrDecl):
                operands.append(pointer(given, at.env, self.strides))
                check_passed(item, one, operands[-1], self.scop.arrays)
            else:
                operands.append(symbol(given, at.env, self.strides))
        self.program.use(meant or name, at.depth, at.constraints, (length,))
        # Counted as the loop that it stands for, so that where that begins cancels out in addresses.
        begin = waiting.row[0][1] if waiting.row else ZERO
        some = at.holds(not_negative(length.plus(number(-1))))
        column = self._count(at, length, begin).plus(begin, -1)
        env = {p.name: g for p, g in zip(parameters, operands, strict=True)}
        first = len(self.program.statements)
        if meant is None:
            step = row_step(self.parsed, name, env, column, self.strides, first)
        else:
            step = meant_step(self.parsed, meant, env, column, self.strides)
        if len(step.lines) != len(waiting.hints):
            raise Wrong(f"line {line_of(item)}: {len(step.lines)} statements in {name}, {len(waiting.hints)} named")
        self._loops += 1
        sums = frozenset(line.accumulator for line in step.lines if line.accumulator)
        if sums and not some:
            raise Unreadable(f"line {line_of(item)}: a sum over a row that may have no columns")
        before = len(at.time)
        lanes = ConcurrentLoop(self._loops, (len(at.time),), "vector", reduction=sums, line=line_of(item))
        at.loops = (*at.loops, lanes)
        at.time = (*at.time, column.plus(begin))
        for k, line in enumerate(step.lines):
            hint = replace(waiting.hints[k], column=column)
            now = replace(at, time=(*at.time, number(k)))
            kind = "summed" if line.accumulator else "assignment"
            self._add(now, kind, line.op, line.value, line.target, hint, item, before, lanes=True)
