"""`prove_every_size`: is the code for all values of the parameters the original?

That code is a few pieces behind questions about the sizes (polydl.lower.guarded_pieces). Each piece is compared with
the original by itself, for all values of the parameters that the questions before it lead there; so the questions only
choose among pieces that are right, and those that isl has no words for (`(double)M * N < 990`) may as well be any.
Where no piece runs, the original loops stand.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.errors import QuotaExceeded
from polydl.base.records import dataclass
from polydl.lower.emit import Generated
from polydl.lower.guarded_pieces import where_all_runs
from polydl.lower.instance_marks import without_marks
from polydl.lower.region import original_text
from polydl.lower.splice import splice
from polydl.model import isl
from polydl.model.at_sizes import at_sizes
from polydl.model.in_child import in_child
from polydl.model.isl import DEFAULT_QUOTA, quota
from polydl.model.scop import Scop
from polydl.prove.as_plain_c import Parsed, helpers, read
from polydl.prove.function_bodies import check_bodies
from polydl.prove.integers import Affine, Unreadable, Wrong, condition, number, parameter
from polydl.prove.printed_program import Program, map_of
from polydl.prove.proof import check_asked, compared, shape
from polydl.prove.reader import Reader
from polydl.prove.result import Proof
from polydl.prove.syntax import asks_for_room, begins, line_of
from polydl.rewrite.canonical import Canonical, canonical

SECONDS = 120
"""Processor time for one proof of all pieces."""
_BEGIN, _END = "polydl_instance_tree", "polydl_instance_end"
"""Marks around the code in the text that is read back."""


def prove_every_size(
    symbolic: Scop,
    code: Generated,
    marked: Generated,
    *,
    program: Canonical | None = None,
    rewritten: Sequence[Scop] = (),
    reassociate: bool = True,
    seconds: int = SECONDS,
    cc: str = "cc",
) -> Proof:
    """Compare the code for all values of a program's parameters with the program, as it was read with parameters.

    `marked` is the code with the marks of `generate(…, instances=True)`. Shown is for each piece of the code and all
    sizes that lead there what `polydl.prove.prove` shows for some. `program`: the canonical form of the program for
    the sizes at which all of it runs, where it is known. Pieces may be of the program with nests fused
    (`rewritten`), which is trusted as there. At most `seconds` of processor time.
    """
    start = time.perf_counter()
    if (without_marks(marked.region), marked.prologue) != (code.region, code.prologue):
        reason = "the text to prove is not the text of the output"
        return Proof("wrong", (), reason=reason, seconds=time.perf_counter() - start)
    region = f"{_BEGIN}();\n{marked.region}\n{_END}();"
    text = splice(symbolic.source, [(symbolic, replace(marked, region=region))], "")
    try:
        answer = in_child(
            lambda: _answer(_Given(symbolic, program, marked.region, text, rewritten, reassociate, cc), seconds),
            "the proof",
            seconds=seconds,
        )
    except QuotaExceeded as error:
        return Proof("open", (), reason=error.reason, seconds=time.perf_counter() - start)
    verdict, proved, notes, trusted, reason = json.loads(answer)
    return Proof(verdict, tuple(proved), tuple(notes), tuple(trusted), reason, time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class _Given:
    """What is compared."""

    symbolic: Scop
    program: Canonical | None
    """See `prove_every_size`."""
    region: str
    """With marks."""
    text: str
    """The file with the region in it."""
    rewritten: Sequence[Scop]
    reassociate: bool
    cc: str


def _answer(given: _Given, seconds: int) -> str:
    with quota("the proof", DEFAULT_QUOTA * seconds):
        try:
            return json.dumps(("proved", *_shown(given), ""))
        except Wrong as error:
            return json.dumps(("wrong", [], [], [], str(error)))
        except Unreadable as error:
            return json.dumps(("open", [], [], [], str(error)))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Code behind questions."""

    block: Any
    """pycparser's Compound."""
    questions: tuple[tuple[Any, bool], ...]
    """Conditions in C, and whether they hold where it runs."""
    original: bool
    """It is the loops as they were written."""

    def tests(self, sizes: Mapping[str, Affine]) -> list[str]:
        """Formulas that hold where it runs, for sizes or parameters: of the questions those that isl has words for."""
        found: list[str] = []
        for asked, holds in self.questions:
            try:
                test = condition(asked, sizes)
            except Unreadable:
                continue  # it only chooses
            found.append(test if holds else f"(not {test})")
        return found


def _shown(given: _Given) -> tuple[list[str], list[str], list[str]]:
    """What holds, what differs without being wrong, what is taken for granted. Raises Wrong, Unreadable."""
    symbolic, region = given.symbolic, given.region
    parsed = read(given.text, symbolic, given.cc)
    root = _root(parsed.body)
    names = {name: parameter(name, unsigned=name in symbolic.unsigned) for name in symbolic.parameters}
    some = where_all_runs(symbolic)
    if not _values([condition(_of_sizes(root.cond), names)]).is_subset(some.values):
        raise Wrong(f"line {line_of(root)}: it also runs at sizes for which a statement has no instance")
    if not re.sub(r"\s", "", region).endswith(re.sub(r"\s", "", f"}}else{{{original_text(symbolic)}}}")):
        raise Wrong("the loops as they were written are not in the output, for the sizes that no other code is for")
    if not isinstance(root.iffalse, c_ast.Compound) or any(begins(node) for node in _compounds(root.iffalse)):
        raise Unreadable(f"line {line_of(root)}: code for sizes for which a statement has no instance")
    every = list(_pieces(root.iftrue, ((root.cond, True),), _code(root.iffalse)))
    pieces = [piece for piece in every if not piece.original]
    if not pieces:
        raise Unreadable("there is no code but the loops as they were written")
    programs: dict[tuple[tuple[str, int], ...], Canonical] = {} if given.program is None else {(): given.program}
    together, notes, pairs = Program(), dict[str, None](), 0
    for piece in pieces:
        fixed = _fixed(_values(piece.tests(names)), symbolic.parameters)
        key = tuple(fixed.items())
        if key not in programs:
            programs[key] = canonical(at_sizes(some.scop, fixed), reassociate=given.reassociate)
        program, found, more = _piece_shown(programs[key], parsed, piece, fixed, given)
        pairs += more
        notes |= dict.fromkeys(found)
        together.trusted |= program.trusted
        together.often |= program.often
        for function, sizes in program.uses.items():
            together.uses.setdefault(function, set()).update(sizes)
    copies = "".join(region.split()).count("".join(original_text(symbolic).split())) - 1 - (len(every) - len(pieces))
    if copies < sum(_asks_for_memory(piece.block) for piece in pieces):
        raise Wrong("the loops as they were written are not in the output, for too little memory")
    check_asked(some.scop, together, given.region)
    bodies = check_bodies(
        together, lambda isa, names: helpers(given.text, symbolic, given.cc, isa, names), symbolic.long
    )
    statements = ", ".join(s.name for s in programs[key].scop.statements)
    where = f"for all sizes, in {len(pieces)} pieces of code"
    proved = [
        f"{where}: each instance of {statements} runs exactly once, on the same elements",
        f"no RAW, WAR or WAW pair is in the wrong order ({pairs} pairs of accesses depend on one another)",
        "no parallel or vector loop carries one",
        *bodies,
    ]
    return proved, list(notes), list(together.trusted)


def _root(body: Any) -> Any:
    """The first question: what stands alone between the marks. Raises Unreadable."""
    for node in _compounds(body):
        items = node.block_items or []
        calls = [_name_of(item) for item in items]
        if _BEGIN in calls and _END in calls:
            inside = items[calls.index(_BEGIN) + 1 : calls.index(_END)]
            if len(inside) == 1 and isinstance(inside[0], c_ast.If):
                return inside[0]
    raise Unreadable("the output has no region of generated code")


def _of_sizes(asked: Any) -> Any:
    """A question without what it asks of arrays (`lower.entry_checks`)."""
    match asked:
        case c_ast.BinaryOp(op="&&", left=left, right=c_ast.FuncCall(name=c_ast.ID(name=name))) if re.fullmatch(
            r"polydl\d*_(ordered_\w+|apart)", name
        ):
            return _of_sizes(left)
    return asked


def _compounds(node: Any) -> Iterator[Any]:
    if isinstance(node, c_ast.Compound):
        yield node
    for _, child in node.children():
        yield from _compounds(child)


def _name_of(item: Any) -> str:
    called = isinstance(item, c_ast.FuncCall) and isinstance(item.name, c_ast.ID)
    return str(item.name.name) if called else ""


def _code(node: Any) -> str:
    return str(c_generator.CGenerator().visit(node))


def _pieces(node: Any, questions: tuple[tuple[Any, bool], ...], original: str) -> Iterator[_Piece]:
    """The pieces of code behind questions; `original`: the block of the loops as they were written. Raises Unreadable
    for anything else in between."""
    while isinstance(node, c_ast.Compound) and not begins(node) and _code(node) != original:
        if len(node.block_items or []) != 1:
            break
        node = node.block_items[0]
    if begins(node):
        yield _Piece(node, questions, original=False)
    elif isinstance(node, c_ast.Compound) and _code(node) == original:
        yield _Piece(node, questions, original=True)
    elif isinstance(node, c_ast.If):
        if node.iffalse is None:
            raise Wrong(f"line {line_of(node)}: nothing runs for some sizes")
        yield from _pieces(node.iftrue, (*questions, (node.cond, True)), original)
        yield from _pieces(node.iffalse, (*questions, (node.cond, False)), original)
    else:
        raise Unreadable(f"line {line_of(node)}: code for some sizes that is not marked")


def _values(tests: Sequence[str]) -> isl.Set:
    """{ [parameters] } for which formulas hold."""
    return map_of("[] -> []", " and ".join(tests)).params()


def _fixed(values: isl.Set, parameters: Sequence[str]) -> dict[str, int]:
    """The parameters that have one value, with it."""
    found: dict[str, int] = {}
    for name in isl.involved_parameters(values):
        alone = isl.as_dimensions(isl.some_values(values, [n for n in parameters if n != name]), [name])
        low, high = isl.least(alone, 0), isl.greatest(alone, 0)
        if low is not None and low == high:
            found[name] = low
    return found


def _asks_for_memory(block: Any) -> int:
    """How many branches of a piece are for too little memory, or rows too long for a thread's stack."""
    own = isinstance(block, c_ast.If) and asks_for_room(block.cond) is not None
    return own + sum(_asks_for_memory(child) for _, child in block.children())


def _piece_shown(
    program: Canonical, parsed: Parsed, piece: _Piece, fixed: Mapping[str, int], given: _Given
) -> tuple[Program, list[str], int]:
    """What one piece is read as, what differs in it, and how many pairs depend on one another. Raises Wrong,
    Unreadable."""
    # Statements that the rewriting has taken apart or put together are those that the text has.
    steps = [f"the same is computed where {step}" for step in program.steps]
    fused = "its statements as polydl fuses them are those of the file"
    forms = [(program.live, [str(d) for d in program.dead]), (program.scop, steps)]
    forms += [(at_sizes(one, fixed), [*steps, fused]) for one in given.rewritten]
    shapes: list[object] = []
    failed: Wrong | Unreadable | None = None
    for scop, trusted in forms:
        if shape(scop) in shapes:
            continue
        shapes.append(shape(scop))
        try:
            return _against(scop, parsed, piece, fixed, given.reassociate, trusted)
        except (Wrong, Unreadable) as error:
            failed = error
    assert failed is not None
    raise failed


def _against(
    scop: Scop,
    parsed: Parsed,
    piece: _Piece,
    fixed: Mapping[str, int],
    reassociate: bool,
    trusted: Sequence[str],
) -> tuple[Program, list[str], int]:
    open_ = {name: parameter(name, unsigned=name in scop.unsigned) for name in scop.parameters}
    sizes = open_ | {n: number(v) for n, v in fixed.items()}
    tests = piece.tests(sizes)
    there = _where(scop, _values(tests))
    found = Reader(there, parsed).piece(piece.block, sizes, tests)
    order, _ = compared(there, found, reassociate)
    found.trusted |= dict.fromkeys(trusted)
    return found, list(order.notes), order.pairs


def _where(scop: Scop, values: isl.Set) -> Scop:
    """The program for some values of its parameters."""
    statements = tuple(
        replace(
            s,
            domain=s.domain.intersect_params(values),
            accesses=tuple(replace(a, relation=a.relation.intersect_params(values)) for a in s.accesses),
        )
        for s in scop.statements
    )
    return replace(scop, statements=statements, context=scop.context.intersect_params(values))
