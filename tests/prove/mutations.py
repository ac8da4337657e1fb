"""Generated code with one mistake in it: bounds, loops, statements, subscripts, copies, pragmas; places by a seed.

A mutation works on the lines of a region as `generate(…, instances=True)` prints it, so that the proof and the compiler
get the same mistake.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.frontend import Program
from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import is_mark, without_marks
from polydl.lower.splice import splice
from polydl.measure import Measurement, MeasureOptions, Toolchain
from polydl.measure.session import Builder, setting_for
from polydl.measure.verify import verify
from polydl.options import Options
from polydl.pipeline import load, rank
from polydl.prove import Proof, prove
from polydl.rewrite.canonical import Canonical
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Node, Run
from polydl.schedule.tree import Sequence as InOrder
from polydl.search.variant import Variant
from tests.oracle.native import QUICK_NATIVE
from tests.programs.corpus import catalogue

OPTIONS = Options(machine="epyc-zen5", threads=2)
QUICK = MeasureOptions(threads=2, timeout=5.0, min_sample=1e-6, budget=1e-4, min_rounds=1, max_rounds=1)
TOOLCHAIN = Toolchain(cflags=(*QUICK_NATIVE, "-w"))

Lines = list[str]
Places = Callable[[Lines], Iterator[tuple[str, Lines]]]
"""Every way to make one kind of mistake: (what was changed, the lines with it)."""

_FOR = re.compile(r"( *)for \((int|long) (\w+) = (.+?); (\w+ <=?) (.+?); (.+)\) \{")
_CALL = re.compile(r"polydl_(?:mk|row|pack)_\w+\(.*\);")


def _changed(lines: Lines, at: int, new: str) -> tuple[str, Lines]:
    return f"{lines[at].strip()} -> {new.strip()}", [*lines[:at], new, *lines[at + 1 :]]


def _is_statement(line: str) -> bool:
    plain = line.strip()
    if not plain.endswith(";") or is_mark(line) or plain.startswith(("const ", "(void)", "#", "int ", "for", "char")):
        return False
    return bool(_CALL.match(plain)) or re.match(r"\w+(\[.*?\])* [-+*/]?= ", plain) is not None


def lower_bound(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Off by one where a loop begins."""
    for at, line in enumerate(lines):
        found = _FOR.fullmatch(line)
        for change in ("+ 1", "- 1") if found else ():
            pad, kind, name, low, compared, high, step = found.groups()  # type: ignore[union-attr]
            yield _changed(lines, at, f"{pad}for ({kind} {name} = ({low}) {change}; {compared} {high}; {step}) {{")


def upper_bound(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Off by one where a loop ends."""
    for at, line in enumerate(lines):
        found = _FOR.fullmatch(line)
        for change in ("+ 1", "- 1") if found else ():
            pad, kind, name, low, compared, high, step = found.groups()  # type: ignore[union-attr]
            yield _changed(lines, at, f"{pad}for ({kind} {name} = {low}; {compared} ({high}) {change}; {step}) {{")


def swapped_loops(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Two loops in the other order."""
    for at in range(len(lines) - 1):
        first, second = _FOR.fullmatch(lines[at]), _FOR.fullmatch(lines[at + 1])
        if first and second and first.group(3) not in re.findall(r"\w+", second.group(4) + " " + second.group(6)):
            new = [first.group(1) + lines[at + 1].strip(), second.group(1) + lines[at].strip()]
            yield f"{lines[at].strip()} inside of {lines[at + 1].strip()}", [*lines[:at], *new, *lines[at + 2 :]]


def subscript(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A neighbouring element."""
    for at, line in enumerate(lines):
        if _is_statement(line):
            for found in re.finditer(r"\[([^\[\]]+)\]", line):
                yield _changed(lines, at, f"{line[: found.start(1)]}{found.group(1)} + 1{line[found.end(1) :]}")


def tile_size(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Another tile size in one place."""
    for at, line in enumerate(lines):
        if _is_statement(line) or _FOR.fullmatch(line):
            for found in re.finditer(r"\b(\d+) \* c\d+", line):
                number = int(found.group(1)) + 1
                yield _changed(lines, at, f"{line[: found.start(1)]}{number}{line[found.end(1) :]}")


def dropped(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A statement, an initialisation, a copy or a block less."""
    for at, line in enumerate(lines):
        if _is_statement(line):
            yield f"without {line.strip()}", [*lines[:at], *lines[at + 1 :]]


def reordered(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Two statements in the other order, each with its mark."""
    for at in range(len(lines)):
        first = _with_mark(lines, at)
        second = _with_mark(lines, first) if first is not None else None
        if first is not None and second is not None:
            new = [*lines[:at], *lines[first:second], *lines[at:first], *lines[second:]]
            yield f"{lines[first - 1].strip()} behind {lines[second - 1].strip()}", new


def _with_mark(lines: Lines, at: int) -> int | None:
    """One past the statement that begins at a line, its mark included; None where none does."""
    end = at
    while end < len(lines) and is_mark(lines[end]):
        end += 1
    return end + 1 if end < len(lines) and _is_statement(lines[end]) else None


def condition(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A remainder that is always, or never, taken."""
    for at, line in enumerate(lines):
        found = re.fullmatch(r"( *)if \(((?!polydl_memory).+)\) \{", line)
        for new in ("1", "0") if found else ():
            yield _changed(lines, at, f"{found.group(1)}if ({new}) {{")  # type: ignore[union-attr]


def racy(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A loop made parallel."""
    for at, line in enumerate(lines):
        if _FOR.fullmatch(line) and (at == 0 or lines[at - 1] != "#endif"):
            pragma = ["#ifdef _OPENMP", "#pragma omp parallel for", "#endif"]
            yield f"parallel: {line.strip()}", [*lines[:at], *pragma, *lines[at:]]


def clause(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A reduction or private clause less."""
    for at, line in enumerate(lines):
        found = re.search(r" (reduction|private)\([^)]*\)", line)
        if found and "#pragma" in line:
            yield _changed(lines, at, line[: found.start()] + line[found.end() :])


def argument(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Another extent or place in a call."""
    for at, line in enumerate(lines):
        extent = r"\d+|\d+ - \d+ \+ 1|polydl_n_min\(.*?\)[^,&]*"
        found = re.match(rf" *polydl_(?:mk|row|pack)_\w+\(({extent}), ", line)
        if found:
            yield _changed(lines, at, f"{line[: found.start(1)]}{found.group(1)} - 1{line[found.end(1) :]}")
        for pack in re.finditer(r"polydl_\w+_pack_\w(?=[,)]| \+)", line):
            if _is_statement(line):
                yield _changed(lines, at, f"{line[: pack.end()]} + 1{line[pack.end() :]}")


def operation(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Another operator."""
    for at, line in enumerate(lines):
        if _is_statement(line) and not _CALL.match(line.strip()):
            for found in re.finditer(r"(?<=\]) ([-+*]) (?=\w)|([-+])=", line):
                new = found.group().translate(str.maketrans("+-*", "-++"))
                yield _changed(lines, at, line[: found.start()] + new + line[found.end() :])


def row_begins(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """Off by one where a row begins."""
    for at, line in enumerate(lines):
        found = re.fullmatch(r"( *const (?:int|long) c\d+ = )(.+);", line)
        for change in ("+ 1", "- 1") if found else ():
            yield _changed(lines, at, f"{found.group(1)}{found.group(2)} {change};")  # type: ignore[union-attr]


def order(lines: Lines) -> Iterator[tuple[str, Lines]]:
    """A loop that is shared out among threads in order, and the one inside of it shared out."""
    for at, line in enumerate(lines):
        if "#pragma omp parallel for" in line and lines[at + 1 : at + 2] == ["#endif"]:
            rest = [*lines[: at - 1], lines[at + 2], *lines[at - 1 : at + 2], *lines[at + 3 :]]
            yield f"inside of {lines[at + 2].strip()}", rest


KINDS: Sequence[Places] = (
    lower_bound, upper_bound, swapped_loops, subscript, tile_size, dropped, reordered, condition, racy, clause,
    argument, operation,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """A variant of a program, printed with and without marks."""

    program: str
    origin: Canonical
    """As it was read, and as it is searched."""
    variant: Variant
    named: Generated

    def mutant(self, named: Generated) -> tuple[Proof, Generated]:
        """The proof of another text in place of the variant's, and the C to verify."""
        plain = replace(named, region=without_marks(named.region))
        scop = self.origin.read
        texts = [splice(scop.source, [(scop, piece)], "") for piece in (plain, named)]
        return prove(self.origin, *texts, rewritten=self.variant.program), plain


LARGER = {"lu": {"N": 120}}
"""Sizes of programs that are not worth threads at those of the corpus."""


def subjects(program: str, wanted: Sequence[str], size: int = 0) -> Iterator[Subject]:
    """The first offered variants of a program whose text has each of some words."""
    entry = catalogue()[program]
    values = LARGER.get(program, entry.sizes[size])
    loaded = load(entry.path, options=OPTIONS, defines=entry.defines(values), sizes=entry.parameters(values))
    yield from subjects_of(program, loaded, wanted)


def subjects_of(name: str, program: Program, wanted: Sequence[str]) -> Iterator[Subject]:
    """The same of any program."""
    (scop,) = program.scops
    ranking = rank(scop, options=OPTIONS)
    legal: list[Variant] = []
    variants = iter(ranking.variants)
    for word in wanted:
        while not any(word in v.generated.region for v in legal):
            variant = next(variants, None)
            assert variant is not None, f"{name} has no variant with '{word}'"
            if variant.illegal is None:
                legal.append(variant)
        variant = next(v for v in legal if word in v.generated.region)
        yield Subject(name, ranking.program, variant, generate(variant.program, variant.tree, instances=True))


def mutants(
    subject: Subject, kinds: Sequence[Places], seed: int, most: int = 1
) -> Iterator[tuple[str, str, Generated]]:
    """(kind, what was changed, text): of each kind at most so many mistakes, at places that the seed chooses."""
    lines = subject.named.region.split("\n")
    for kind in kinds:
        every = list(kind(lines))
        for what, new in random.Random(f"{seed} {subject.program} {kind.__name__}").sample(
            every, min(most, len(every))
        ):
            yield kind.__name__, what, replace(subject.named, region="\n".join(new))


def verified(subject: Subject, codes: Sequence[Generated]) -> list[Measurement]:
    """What the verification runs say of C in place of the variant's."""
    named = {f"mutant{n}": code for n, code in enumerate(codes)}
    own = subject.variant.program
    compiler = shutil.which(TOOLCHAIN.cc)
    assert compiler is not None
    with tempfile.TemporaryDirectory(prefix="polydl-mutants-") as name:
        folder = Path(name)
        builder = Builder(own, TOOLCHAIN, QUICK, compiler, folder)
        built, failed = builder.build(named, lambda stage, done, total: None)
        setting = setting_for(own, folder, built[0], QUICK)
        checked = verify(setting, built[0], built[1:], lambda done, total: None)
    found = {m.id: m for m in (*failed, *(one.measurement for one in checked.checked))}
    return [found[name] for name in named]


# Mistakes in the schedule, before anything is printed


def _trees(node: Node) -> Iterator[tuple[str, Node]]:
    """Every tree with one mistake: a loop made parallel, two loops or two parts in the other order."""
    match node:
        case Leaf() | Kernel():
            return
        case Band(members, child):
            for k, member in enumerate(members):
                if member.run is not Run.PARALLEL:
                    changed = (*members[:k], replace(member, run=Run.PARALLEL), *members[k + 1 :])
                    yield f"loop {k} of a band parallel", Band(changed, child)
                if k + 1 < len(members):
                    changed = (*members[:k], members[k + 1], member, *members[k + 2 :])
                    yield f"loops {k} and {k + 1} of a band swapped", Band(changed, child)
            for what, new in _trees(child):
                yield what, Band(members, new)
        case InOrder(children):
            for k, one in enumerate(children):
                if k + 1 < len(children):
                    yield (
                        f"parts {k} and {k + 1} swapped",
                        InOrder((*children[:k], children[k + 1], one, *children[k + 2 :])),
                    )
                for what, new in _trees(one):
                    yield what, InOrder((*children[:k], new, *children[k + 1 :]))
        case Copy(packs, kernel, child):
            for what, new in _trees(child):
                yield what, Copy(packs, kernel, new)


def schedules(subject: Subject) -> Iterator[tuple[str, str | None, Generated | None]]:
    """(what was changed, what the legality check says, text where it says nothing) of every mistake in the trees of a
    variant."""
    right = subject.variant
    for at, part in enumerate(right.parts):
        for what, tree in _trees(part.tree) if part.loops is None else ():
            variant = replace(right, parts=(*right.parts[:at], replace(part, region=tree), *right.parts[at + 1 :]))
            text = generate(variant.program, variant.tree, instances=True) if variant.illegal is None else None
            yield what, variant.illegal, text
