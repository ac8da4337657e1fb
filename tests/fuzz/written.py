"""What polydl writes for random programs, compiled many at a time and called beside the originals."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polydl.base.effort import Effort
from polydl.base.errors import InputError, PolyDLError
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import load_sized, optimize, rank, with_fused
from tests.compiling import run_compiler
from tests.fuzz.calls import FILLINGS, Case, Verdict, verdicts
from tests.fuzz.parts import Program
from tests.oracle.native import apart

LITTLE = Effort(
    ways=8, checks=6, schedulers=2, least_ways=4, least_checks=4, fused_bases=4, fused=3, drawn=24, families=3,
    looked_at=40, first=4, statements=300, nests_at_sizes=300,
)  # fmt: skip
"""What is written is looked at, not how fast it is: a search for fast code would be most of the time."""
OPTIONS = Options(space="small", machine="epyc-zen5", learn=False, budget=4.0, effort=LITTLE, oracle=False)
REFERENCE = (
    "-std=gnu11",
    "-O1",
    "-w",
    "-ftrivial-auto-var-init=zero",
    "-ffp-contract=off",
    "-fsanitize=undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
WRITTEN = (
    "-std=gnu11",
    "-O1",
    "-w",
    "-ftrivial-auto-var-init=zero",
    "-ffp-contract=off",
    "-fstrict-aliasing",
    "-march=native",
    "-fopenmp",
)
COMPILER_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Text:
    """What polydl wrote."""

    how: str
    """Which text it is, for people."""
    text: str
    sizes: dict[str, int]
    """For which it was made, if for any."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with a program."""

    kind: str
    """`different`, `crash`, `hang`, `traceback`, `refused by the compiler`."""
    how: str
    """Which text, or what was done."""
    detail: str
    case: Case | None = None


class Refused(Exception):
    """polydl does not take the program; the message says why."""


BESIDE = "different beside its source"
CALLED = 4
"""Of so many programs one is written as users have it written: called beside its source, which takes a second. There
its arguments overlap, too, where C lets them."""


class Differs(Exception):
    """polydl's own check of what it wrote found it wrong; the message says how."""


def texts_of(program: Program, mark: str, path: Path, number: int, only: str = "") -> list[Text]:
    """Texts for a program: the first choice, and at times a variant that `number` chooses; only those whose description
    begins like `only`. Raises Refused, and whatever is no error of polydl's own."""
    path.write_text(program.called(mark))
    rng = random.Random(number)
    parameters = [size for size in program.sizes if not size.macro]
    tuned = {size.name: rng.choice((5, 16, 33)) for size in parameters}
    threads = rng.choice((1, 3))
    options = OPTIONS.changed(reassociate=program.exact, threads=threads)
    texts = []
    try:
        given = tuned if rng.random() < 0.5 else {}
        if not only.startswith("variant"):
            done = optimize(path, options=options.changed(sizes=given, oracle=number % CALLED == 1), run=False)
            if done.checked.faults:
                raise Differs(str(done.checked.faults[0]))
            texts.append(Text(f"first choice, sizes {given or 'any'}, threads={threads}", done.text, given))
        if rng.random() < 0.35 and not only.startswith("first"):
            texts += _variant(path, options, tuned, rng)
    except InputError as error:
        raise Refused(str(error)) from error
    return texts


def _variant(path: Path, options: Options, tuned: dict[str, int], rng: random.Random) -> list[Text]:
    loaded, options = load_sized(path, options.changed(sizes=tuned))
    pieces, which = [], []
    for scop in loaded.scops:
        try:
            ranking = with_fused(rank(scop, options=options), options)
        except InputError:
            raise
        except PolyDLError:
            continue  # a region that is too much stays as it is
        if ranking.variants:
            chosen = rng.choice(ranking.variants[:40])
            which.append(chosen.id)
            pieces.append((ranking.scop, chosen.generated))
    return [Text(f"variants {' '.join(which)}", splice(loaded.source, pieces, ""), tuned)] if pieces else []


def cases_of(program: Program, text: Text, number: int, most: int = 12) -> list[Case]:
    """Calls that `number` determines: sizes in turn, the tuned ones first."""
    rng = random.Random(number)
    made = [dict(text.sizes)] if text.sizes else []
    for _ in range(most):
        made.append({size.name: rng.choice(size.values) for size in program.sizes})
    for sizes in made:
        for size in program.sizes:
            if size.macro or size.name not in sizes:
                sizes[size.name] = size.values[0]
    return [
        Case({size.name: sizes[size.name] for size in program.sizes}, FILLINGS[place % len(FILLINGS)], number + place,
             1 if place % 3 == 1 else 3)
        for place, sizes in enumerate(made)
    ]  # fmt: skip


@dataclass
class Member:
    """A program of a batch."""

    program: Program
    number: int
    mark: str
    texts: list[Text]


def compiled(texts: Sequence[str], flags: Sequence[str], path: Path) -> str:
    """Compile texts as one file into `path`; what the compiler says where it refuses that."""
    source = path.with_suffix(".c")
    source.write_text("\n".join(texts))
    try:
        done = run_compiler(["gcc", *flags, "-shared", "-fPIC", "-o", str(path), str(source), "-lm"], check=False)
    except subprocess.TimeoutExpired:
        return "takes too long"
    return done.stderr if done.returncode else ""


def checked(members: Sequence[Member], folder: Path) -> list[tuple[Member, Text | None, Verdict | Fault]]:
    """The verdicts of all texts: the last one of each, which is `equal` where all are."""
    reference = folder / "reference.so"
    said = compiled([m.program.called(m.mark) for m in members], REFERENCE, reference)
    if said:
        raise RuntimeError(f"the originals do not compile: {said[:2000]}")
    pairs = [(m, number, text) for m in members for number, text in enumerate(m.texts)]
    library = folder / "written.so"
    whole = not compiled([_own_names(m, n, t) for m, n, t in pairs], WRITTEN, library)
    done: list[tuple[Member, Text | None, Verdict | Fault]] = []
    for m, number, text in pairs:
        if not whole:
            library = folder / f"written{m.mark}v{number}.so"
            said = compiled([_own_names(m, number, text)], WRITTEN, library)
            if said:
                done.append((m, text, Fault("refused by the compiler", text.how, said[:1000])))
                continue
        cases = cases_of(m.program, text, m.number)
        found = verdicts(m.program, reference, library, (f"f{m.mark}", f"f{m.mark}v{number}"), cases)
        last = found[-1]
        if last.kind in ("equal", "undefined"):
            done.append((m, text, last))
        else:
            done.append((m, text, Fault(last.kind, text.how, last.detail, cases[len(found) - 1])))
    return done


def _own_names(member: Member, number: int, text: Text) -> str:
    mark = f"{member.mark}v{number}"
    return apart(re.sub(rf"{member.mark}\b", mark, text.text), mark.strip("_"))
