"""`prove`: is a generated file the original?"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import reduce

from polydl.base.errors import QuotaExceeded
from polydl.lower.entry_checks import entry_checks
from polydl.lower.instance_marks import without_marks
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.accumulation import accumulation
from polydl.model.in_child import in_child
from polydl.model.isl import DEFAULT_QUOTA, quota
from polydl.model.scop import Assignment, BlackBox, Scop, Statement
from polydl.prove import kept_texts, printed_segments
from polydl.prove.addresses import address, linear
from polydl.prove.as_plain_c import helpers, read
from polydl.prove.counter_examples import instance
from polydl.prove.dependence_order import Order, check_concurrent, check_private, check_steps
from polydl.prove.function_bodies import check_bodies
from polydl.prove.integers import Unreadable, Wrong
from polydl.prove.matching import Match, assignment_pairs, differs, hinted
from polydl.prove.memory import check_apart
from polydl.prove.parts_in_memory import check_parts
from polydl.prove.printed_program import WRITES, Pointer, Printed, Program, value_map
from polydl.prove.reader import Reader
from polydl.prove.result import Proof
from polydl.prove.symbolic_values import Chosen, Integer, Literal, Load, Made, chosen_arrays, loads
from polydl.prove.team_order import check_teams
from polydl.prove.unfold import unfolded
from polydl.prove.word_copies import check_corrections, leave_out_padding
from polydl.rewrite.canonical import Canonical

Copied = dict[tuple[str, Pointer], tuple[str, isl.Map]]
"""Per printed statement and address in a buffer: which array's elements { T[i…] -> [element] } are there."""

SECONDS = 30
"""Processor time for one proof."""


def prove(
    program: Canonical,
    text: str,
    named: str,
    *,
    rewritten: Scop | None = None,
    reassociate: bool = True,
    seconds: int = SECONDS,
    cc: str = "cc",
) -> Proof:
    """Compare a generated file with the program that it was made from, as it was read.

    `text` is the file, `named` the same with the marks of `generate(…, instances=True)`. Shown are: every instance of
    the original runs exactly once, with the same operations on the same elements; every RAW, WAR and WAW pair keeps
    its order; parallel and vector loops carry none; generated functions do what their calls are taken for, in every
    instruction set. Where the variant is one of a scop with other statements
    (`rewritten`: sums made in place, products taken apart, nests fused) and that is all that can be compared, the
    result says so; the steps to the canonical form have passed checks of their own, fusing is trusted. At most
    `seconds` of processor time.
    """
    start = time.perf_counter()
    if without_marks(named) != text:
        reason = "the text to prove is not the text of the output"
        return Proof("wrong", (), reason=reason, seconds=time.perf_counter() - start)
    try:
        answer = in_child(
            lambda: _answer(program, rewritten, named, reassociate, seconds, cc), "the proof", seconds=seconds
        )
    except QuotaExceeded as error:
        return Proof("open", (), reason=error.reason, seconds=time.perf_counter() - start)
    verdict, proved, notes, trusted, reason = json.loads(answer)
    return Proof(verdict, tuple(proved), tuple(notes), tuple(trusted), reason, time.perf_counter() - start)


def _answer(program: Canonical, rewritten: Scop | None, named: str, reassociate: bool, seconds: int, cc: str) -> str:
    with quota("the proof", DEFAULT_QUOTA * seconds):
        kept = program.live
        verdict, proved, notes, trusted, reason = _against(kept, named, reassociate, cc)
        if verdict == "proved" or rewritten is None or shape(rewritten) == shape(kept):
            return json.dumps((verdict, proved, notes, [*trusted, *map(str, program.dead)], reason))
        verdict, proved, notes, trusted, reason = _against(rewritten, named, reassociate, cc)
        if verdict == "proved":
            proved += [f"the same is computed where {step}" for step in program.steps]
        if shape(rewritten) != shape(program.scop):
            trusted.append("its statements as polydl fuses them are those of the file")
        return json.dumps((verdict, proved, notes, trusted, reason))


def _against(scop: Scop, named: str, reassociate: bool, cc: str) -> tuple[str, list[str], list[str], list[str], str]:
    try:
        proved, notes, trusted = shown(scop, named, reassociate, cc)
    except Wrong as error:
        return "wrong", [], [], [], str(error)
    except Unreadable as error:
        return "open", [], [], [], str(error)
    return "proved", proved, notes, trusted, ""


def shape(scop: Scop) -> list[object]:
    """What tells a rewritten scop from another: its statements, what they touch and what they compute."""
    return [(s.name, s.iterators, [(a.array, a.write) for a in s.accesses], repr(s.body)) for s in scop.statements]


def shown(scop: Scop, named: str, reassociate: bool, cc: str) -> tuple[list[str], list[str], list[str]]:
    """What holds, what differs without being wrong, and what that takes for granted.

    Raises Wrong, Unreadable, QuotaExceeded.
    """
    if scop.parameters:
        raise Unreadable(f"sizes that are not known: {', '.join(scop.parameters)}")
    program = Reader(scop, read(named, scop, cc)).read()
    order, loops = compared(scop, program, reassociate)
    _original_there(scop, program, named)
    check_asked(scop, program, named)
    bodies = check_bodies(program, lambda isa, names: helpers(named, scop, cc, isa, names), scop.long)
    sizes = ", ".join(f"{n} = {v}" for n, v in scop.sizes.items())
    names = ", ".join(s.name for s in scop.statements)
    proved = [
        f"{f'for {sizes}: ' if sizes else ''}each instance of {names} runs exactly once, on the same elements",
        f"no RAW, WAR or WAW pair is in the wrong order ({order.pairs} pairs of accesses depend on one another)",
        f"no parallel or vector loop carries one ({loops} loops)",
        *bodies,
    ]
    return proved, list(order.notes), list(program.trusted)


def compared(scop: Scop, program: Program, reassociate: bool) -> tuple[Order, int]:
    """The order of a printed program, and how many parallel and vector loops it has, where it is the original. Raises
    Wrong, Unreadable, QuotaExceeded."""
    order = Order(scop, program, [], {}, reassociate, _length(program))
    leave_out_padding(order)
    sources = _sources(order, program)
    order.matches = _matches(scop, program, sources)
    order.length = max([order.length, *(len(m.printed.time) for m in order.matches)])
    _once_each(scop, order.matches)
    for match in order.matches:
        if isinstance(match.statement.body, Assignment):  # a sum over a segment was compared when it was matched
            _same_accesses(scop, order.matches, match, sources)
    _copies_hold(order, program)
    check_corrections(order)
    order.check()
    copies = [p for p in program.statements if p.kind in (*WRITES, "start")]
    statements = [*(m.printed for m in order.matches), *copies]
    check_steps(order, statements)
    loops = check_concurrent(order, statements)
    check_teams(order, statements)
    check_private(order, statements)
    check_parts(order, statements)
    check_apart(order, statements)
    _partial_sums(order)
    return order, loops


def _original_there(scop: Scop, program: Program, named: str) -> None:
    """The loops as they were written stand where other sizes, or too little memory, lead. Raises Wrong."""
    asked = scop.guards or scop.expansions or scop.conditions or scop.ordered or scop.apart
    wanted = bool(asked) + bool(program.memory)
    if "".join(named.split()).count("".join(original_text(scop).split())) < wanted:
        raise Wrong("the loops as they were written are not in the output, for other sizes or too little memory")


def check_asked(scop: Scop, program: Program, text: str) -> None:
    """The output asks what the program takes for granted of what arrays hold and where they lie. Raises Wrong."""
    written = "".join(text.split())
    for check in entry_checks(scop)[0]:
        if "".join(check.condition.split()) not in written:
            raise Wrong(f"the output does not ask {check.asks}")
        program.trusted[f"where {check.otherwise}, the loops as they were written run"] = None


def _partial_sums(order: Order) -> None:
    """Sums that are added up in registers, from zero, before they are added to their element. Raises Wrong where their
    order matters."""
    kernels: dict[int, list[Match]] = {}
    for match in order.matches:
        body = match.statement.body
        if isinstance(body, BlackBox):
            if match.printed.kind == "kept":
                continue
            if not (order.reassociate and body.regroups):
                raise Wrong(f"line {match.printed.line}: a sum is added up in another order than written")
            order.notes["sums are added up in another order than written"] = None
            continue
        if match.printed.kind == "summed" and match.printed.op != "=":
            kernels.setdefault(-1, []).append(match)
        elif match.printed.step is not None and not match.printed.lanes:
            kernels.setdefault(match.printed.step, []).append(match)
    for step, found in kernels.items():
        before = [m for m in found if m.printed.kind != "product"]
        if any(m.printed.kind == "product" and m.printed.op == "=" for m in found):
            continue  # one after the other, from what there was
        zeroed = bool(before) and before[0].printed.value == Literal("0", vector=True)
        if step == -1 or not zeroed:
            if not any(how.rounds for m in found if (how := accumulation(order.scop, m.statement)) is not None):
                continue
            if not order.reassociate:
                raise Wrong(f"line {found[0].printed.line}: a sum is added up in another order than written")
            order.notes["sums are added up in another order than written"] = None


def _length(program: Program) -> int:
    return max((len(p.time) for p in (*program.statements, *program.waits)), default=0)


def _matches(scop: Scop, program: Program, sources: Copied) -> list[Match]:
    matches: list[Match] = []
    number = len(program.statements)
    for at, printed in enumerate(program.statements):
        if printed.kind == "kernel":
            product = program.statements[at + 1]
            known = {p: found for (name, p), found in sources.items() if name == product.name}
            found = unfolded(scop, printed, product, known, number)
            for match in found:
                if match.printed.kind == "product":
                    for (name, p), value in list(sources.items()):
                        if name == product.name:
                            moved = isl.domain_named(value[1], match.printed.name)
                            sources[match.printed.name, p] = (value[0], moved)
            number += len(found)
            matches += found
        elif printed.kind in ("assignment", "summed", "kept"):
            if printed.hint is None:
                raise Unreadable(f"line {printed.line}: which instance this is")
            statement = _statement(scop, printed.hint.statement)
            if statement is None:
                raise Unreadable(f"line {printed.line}: {printed.hint.statement} is not a statement of the original")
            kept = isinstance(statement.body, BlackBox)
            pairs = [] if kept else assignment_pairs(scop, printed, statement)
            if pairs is None:
                body = statement.body
                other = isinstance(body, Assignment) and (printed.op != body.op or differs(printed.value, body.value))
                # Vector code may say the same in another way.
                error = Wrong if other and not printed.lanes else Unreadable
                raise error(f"line {printed.line}: not the operations of {statement.name}")
            instances = hinted(printed, statement, printed.hint)
            outside = instances.range().subtract(statement.domain)
            if not outside.is_empty():
                raise Wrong(f"line {printed.line}: {instance(statement.name, outside)} is not in the original")
            if not printed.domain.is_subset(instances.domain()) or not instances.is_single_valued():
                raise Wrong(f"line {printed.line}: not one instance of {statement.name} each time")
            if printed.kind == "kept":
                kept_texts.touching(scop, printed, statement, instances)
            elif kept and (different := printed_segments.difference(scop, printed, statement, instances)):
                raise Wrong(f"line {printed.line}: {different} differs from {statement.name}")
            matches.append(Match(printed, statement, instances, pairs))
    return matches


def _statement(scop: Scop, name: str) -> Statement | None:
    """The statement of that name, or the one that a part is of: `S0ab` is a part of `S0`."""
    found = [s for s in scop.statements if s.name == name]
    found += [s for s in scop.statements if name.startswith(s.name) and name.removeprefix(s.name).strip("ab") == ""]
    return found[0] if found else None


def _once_each(scop: Scop, matches: Sequence[Match]) -> None:
    """Every instance runs exactly once. Raises Wrong with one that does not."""
    for statement in scop.statements:
        mine = [m for m in matches if m.statement is statement]
        covered = reduce(
            isl.Set.union, (m.instances.range() for m in mine), isl.Set.empty(statement.domain.get_space())
        )
        missing = statement.domain.subtract(covered)
        if not missing.is_empty():
            raise Wrong(f"{instance(statement.name, missing)} does not run")
        outside = covered.subtract(statement.domain)
        if not outside.is_empty():
            raise Wrong(f"{instance(statement.name, outside)} is not in the original")
        seen = None
        for match in mine:
            if not match.instances.is_injective():
                back = match.instances.reverse()
                twice = _several(back)
                raise Wrong(f"{instance(statement.name, twice)} runs more than once")
            again = match.instances.range() if seen is None else match.instances.range().intersect(seen)
            if seen is not None and not again.is_empty():
                raise Wrong(f"{instance(statement.name, again)} runs more than once")
            seen = match.instances.range() if seen is None else seen.union(match.instances.range()).coalesce()


def _several(back: isl.Map) -> isl.Set:
    """The elements that a relation maps to more than one."""
    pairs = back.reverse().apply_range(back)
    return pairs.subtract(isl.Map.identity(pairs.get_space())).domain().apply(back.reverse())


def _same_accesses(scop: Scop, matches: Sequence[Match], match: Match, sources: Copied) -> None:
    """The printed statement touches what the original's instances touch. Raises Wrong."""
    printed, statement = match.printed, match.statement
    body = statement.body
    assert isinstance(body, Assignment)

    def original(access: int) -> isl.Map:
        return match.instances.apply_range(linear(scop, statement, access))

    def compare(access: int, array: str, elements: isl.Map) -> None:
        wanted = statement.accesses[access].array
        if array != wanted:
            raise Wrong(f"line {printed.line}: {array} in place of {wanted} in {statement.name}")
        other = original(access)
        if not printed.lanes:  # what a condition keeps from being read is no matter
            elements = elements.intersect_domain(other.domain())
        if not elements.is_equal(other):
            wrong = elements.subtract(other).domain()
            at = match.instances.intersect_domain(wrong).range() if not wrong.is_empty() else other.domain()
            shown_ = instance(statement.name, at) if not wrong.is_empty() else statement.name
            raise Wrong(f"line {printed.line}: another element of {array} in {shown_}")

    if printed.target is not None:
        compare(body.target, printed.target.base, address(scop, printed, printed.target))
    elif not _stays_inside(scop, matches, match):
        raise Wrong(f"line {printed.line}: what {statement.name} computes is not stored")
    for access, symbol in match.pairs:
        if isinstance(access, int):
            match symbol:
                case Load(at):
                    known = sources.get((printed.name, at))
                    array, elements = known if known is not None else (at.base, address(scop, printed, at))
                    compare(access, array, elements)
                case Made(by):
                    array, elements = _made_elements(scop, matches, match, by)
                    compare(access, array, elements)
                    _last_made(scop, matches, by, printed, statement.accesses[access].array)
                case Chosen(base):  # its subscripts are pairs of their own
                    if base != statement.accesses[access].array:
                        raise Wrong(f"line {printed.line}: an element of {base} in {statement.name}")
                case _:
                    raise Wrong(f"line {printed.line}: a number in place of an element in {statement.name}")
        elif isinstance(symbol, Integer):
            _same_integer(match, access, symbol)


def _made_elements(scop: Scop, matches: Sequence[Match], match: Match, by: int) -> tuple[str, isl.Map]:
    """The array and the elements { T[i…] -> [element] } whose value a statement of the step has left in a register.
    Raises Wrong."""
    made = next((m for m in matches if m.printed.number == by), None)
    if made is None or not isinstance(made.statement.body, Assignment):
        raise Wrong(f"line {match.printed.line}: a value from nowhere in {match.statement.name}")
    target = made.statement.body.target
    elements = made.instances.apply_range(linear(scop, made.statement, target))
    return made.statement.accesses[target].array, isl.domain_named(elements, match.printed.name)


def _same_integer(match: Match, wanted: isl.PwAff, symbol: Integer) -> None:
    printed = match.printed
    found = value_map(printed, (symbol.value,))
    other = match.instances.apply_range(isl.Map.from_pw_aff(wanted).intersect_domain(match.statement.domain))
    if not found.is_equal(other):
        raise Wrong(f"line {printed.line}: another integer value in {match.statement.name}")


def _last_made(scop: Scop, matches: Sequence[Match], made: int, reader: Printed, array: str) -> None:
    """Between a statement of a step and the one that uses its value, none writes the array. Raises Wrong."""
    for other in matches:
        inside = made < other.printed.number < reader.number
        if inside and isinstance(other.statement.body, Assignment):
            if other.statement.target.array == array:
                raise Wrong(f"line {reader.line}: an older value of {array}")


def _stays_inside(scop: Scop, matches: Sequence[Match], match: Match) -> bool:
    """Whether a value that is not stored is needed by nobody outside of its step: a later statement of the step stores
    the element, or the array is read in the step alone and by nobody afterwards."""
    assert isinstance(match.statement.body, Assignment)
    array = match.statement.target.array
    mine = match.instances.apply_range(linear(scop, match.statement, match.statement.body.target))
    for other in matches:
        if other.printed.step != match.printed.step or other.printed.number <= match.printed.number:
            continue
        body = other.statement.body
        assert isinstance(body, Assignment)
        if other.printed.target is not None and other.statement.target.array == array:
            elements = other.instances.apply_range(linear(scop, other.statement, body.target))
            if isl.domain_named(elements, match.printed.name).is_equal(mine):
                return True
    read = (({at.base for at in loads(m.printed.value)} | chosen_arrays(m.printed.value)) for m in matches)
    return array not in scop.live_out and all(array not in names for names in read)


# Copies


def _sources(order: Order, program: Program) -> Copied:
    """Per printed statement and address in a buffer: which array's elements { T[i…] -> [element] } are there. When they
    were copied is noted in `order.copied`. Raises Wrong where none was copied."""
    found: Copied = {}
    times: dict[tuple[str, Pointer], isl.Map] = {}
    copies = [p for p in program.statements if p.kind in WRITES]
    for printed in program.statements:
        if printed.kind in (*WRITES, "start"):
            continue
        for at in loads(printed.value):
            if at.base in program.buffers:
                found[printed.name, at], times[printed.name, at] = _copied(order, printed, at, copies)
    order.copied = times
    return found


def _copied(
    order: Order, printed: Printed, at: Pointer, copies: Sequence[Printed]
) -> tuple[tuple[str, isl.Map], isl.Map]:
    mine = [c for c in copies if c.target is not None and c.target.base == at.base]
    when = order.time(printed)
    last = None
    for copy in mine:
        assert copy.target is not None
        same = address(order.scop, printed, at).apply_range(address(order.scop, copy, copy.target).reverse())
        earlier = same.intersect(order.time(copy).lex_lt_map(when).reverse()).apply_range(order.time(copy))
        last = earlier if last is None else last.union(earlier)
    stored = [p.target for p in order.program.statements if p.kind not in WRITES and p.target is not None]
    if any(target.base == at.base for target in stored):
        raise Unreadable(f"line {printed.line}: {at.base} holds a part of an array at a time, which is not followed")
    if last is None or not printed.domain.is_subset(last.domain()):
        raise Wrong(f"line {printed.line}: elements of {at.base} that were never copied there")
    last = last.lexmax()
    elements = None
    array = ""
    for copy in mine:
        there = last.apply_range(order.time(copy).reverse())
        if there.is_empty():
            continue
        if copy.kind != "copy":
            raise Wrong(f"line {printed.line}: what fills up {at.base}, or sums of columns, in place of its elements")
        source = copy.value.at
        one = there.apply_range(address(order.scop, copy, source))
        if array not in ("", source.base):
            raise Unreadable(f"line {printed.line}: copies of two arrays in one buffer")
        array = source.base
        elements = one if elements is None else elements.union(one)
    assert elements is not None
    return (array, elements.coalesce()), last.coalesce()


def _copies_hold(order: Order, program: Program) -> None:
    """A thread's own copies are made in the same iteration of the parallel loops in which they are used, and copies lie
    apart. Raises Wrong."""
    by_name = {p.name: p for p in program.statements} | {m.printed.name: m.printed for m in order.matches}
    for (name, at), when in order.copied.items():
        printed = by_name[name]
        buffer = program.buffers[at.base]
        if not buffer.own:
            continue
        for copy in program.statements:
            if copy.kind not in WRITES or copy.target is None or copy.target.base != at.base:
                continue
            flow = when.intersect_range(order.time(copy).range())
            if flow.is_empty():
                continue
            around = {entry.number: entry for entry in (*printed.loops, *copy.loops) if entry.kind == "parallel"}
            for entry in around.values():
                both = entry in printed.loops and entry in copy.loops
                value = order.time(printed).reverse().apply_range(flow)
                if not both or not all(isl.agrees(value, d) for d in range(max(entry.times) + 1)):
                    raise Wrong(f"line {printed.line}: a copy in {at.base} that another thread may have made")
