"""The written C against the source: both compiled as whole files and called on tiny sizes and adversarial data.

Everything else that polydl shows of its output begins at what the front end read. This does not: the source is run as
its compiler and a reference interpreter (polydl.oracle) understand it. Calls for which the source has undefined
behaviour are said and not compared.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from polydl.base.records import dataclass
from polydl.frontend.text.linkage import as_c
from polydl.measure import interpreted_calls
from polydl.measure.check_calls import SLOT, Case, Subject, cases
from polydl.measure.check_data import FILLINGS
from polydl.measure.check_job import Call, CannotRun, OtherMachine, Outcome, Side, driver_job, run
from polydl.measure.check_values import Runs, first_difference
from polydl.measure.compiler import compile_all, find_compiler, link_flags, run_compiler, unit_flags
from polydl.measure.measurement import Toolchain
from polydl.model.scop import Source

SECONDS = 20.0
"""That a compiler may take for a file."""
_THREADS = 3
"""More than there are cores on small machines: what depends on their number, or races, shows sooner."""
_SANITIZED = (
    "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift-exponent",
    "-fsanitize=float-cast-overflow,bounds,bool,vla-bound,unreachable,return",
    "-fno-sanitize-recover=all",
)
"""What is undefined in the source is told by its compiler where the interpreter cannot run it. Shifts of negative
numbers and of ones into the sign are defined by gcc and clang."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A call for which the output does not do what the source does: a mistake in polydl."""

    function: str
    sizes: Mapping[str, int]
    data: str
    """What arrays held, for people."""
    told: str
    """What differs, a clause: `y[3] is 2.0, and the source computes 1.0`."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return f"{self.function}: with {sizes + ' and ' if sizes else ''}{self.data} {self.told}"


@dataclass(frozen=True, slots=True)
class Undefined:
    """Where the source does what C does not define, at some sizes."""

    function: str
    where: str
    """`file:line:column`; empty where it is not known."""
    what: str
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what} in '{self.function}'{f' with {sizes}' if sizes else ''}: not compared there"


@dataclass(frozen=True, slots=True)
class Checked:
    """What the comparison of an output with its source came to."""

    calls: int = 0
    """That were compared."""
    faults: tuple[Fault, ...] = ()
    """The first one of each function."""
    undefined: tuple[Undefined, ...] = ()
    not_called: Mapping[str, str] = field(default_factory=dict)
    """By function, why it was not called, for people."""


def check(
    source: Source, text: str, subjects: Sequence[Subject], toolchain: Toolchain, *, reassociate: bool
) -> Checked:
    """Compare the output `text` with the source it was made of, by calls of functions that hold regions.

    `reassociate`: sums may be in another order, which decides whether something overflows or cancels on the way.

    Raises ToolchainError where there is no compiler, or either does not compile.
    """
    made, not_called = cases(subjects)
    if not made:
        return Checked(not_called=not_called)
    with tempfile.TemporaryDirectory(prefix="polydl-check-") as name:
        folder = Path(name)
        wrappers, calls = _wrappers(made), [case.call for case in made]
        built = _compiled(source, text, wrappers, folder, toolchain)
        if isinstance(built, str):
            names = (case.subject.function for case in made)
            return Checked(not_called={**dict.fromkeys(names, built), **not_called})
        executable, original, output = built
        environment = {
            "OMP_NUM_THREADS": str(_THREADS), "OMP_DYNAMIC": "false", "OMP_WAIT_POLICY": "passive", "PATH": os.defpath,
            "UBSAN_OPTIONS": "print_stacktrace=0",
        }  # fmt: skip

        def interpreted(some: Sequence[Call]) -> list[Mapping[Side, Outcome] | None]:
            texts = [f"{as_c(content)}{wrappers}" for content in (source.text, text)]
            return interpreted_calls.run(find_compiler(toolchain), unit_flags(source), texts[0], texts[1], some)

        outcomes: list[Mapping[Side, Outcome] | None]
        try:
            try:
                outcomes = [*run(executable, original, output, calls, environment)]
                unknown = [k for k, one in enumerate(outcomes) if one and one[Side.OUTPUT].unknown_instructions]
                for k, one in zip(unknown, interpreted([calls[k] for k in unknown]), strict=True):
                    outcomes[k] = one
            except OtherMachine:
                outcomes = interpreted(calls)
        except CannotRun as error:
            names = (case.subject.function for case in made)
            return Checked(not_called={**dict.fromkeys(names, error.reason), **not_called})
    return _judged(made, outcomes, not_called, reassociate=reassociate)


def _wrappers(made: Sequence[Case]) -> str:
    """C behind a file: for each function one that calls it with the arguments of a frame."""
    first = {case.call.function: case for case in reversed(made)}
    lines = []
    for number, case in sorted(first.items()):
        header = case.subject.header
        given = []
        for at, argument in enumerate(case.arguments):
            given.append(f"*({argument.kind} *)(frame + {SLOT * at})")
        call = f"{case.subject.function}({', '.join(given)})"
        if header.result != "void":
            call = f"*({header.result} *)(frame + {SLOT * len(given)}) = {call}"
        lines.append(f'\n__attribute__((visibility("default"))) void polydl_check_{number}(char *frame) {{ {call}; }}')
    return "\n".join(lines) + "\n"


def _compiled(
    source: Source, text: str, wrappers: str, folder: Path, toolchain: Toolchain
) -> tuple[Path, Path, Path] | str:
    """The driver; the source, made to tell what is undefined where its compiler can; the output. All are compiled
    without the passes that make code fast: what it means does not depend on them. Or why they cannot be, for people.
    Raises ToolchainError."""
    compiler = find_compiler(toolchain)
    common = [*unit_flags(source), "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]
    plain = ("-O1", "-fno-tree-vectorize")
    jobs, targets = [], []
    for which, content, flags in (("source", source.text, _SANITIZED), ("output", text, ())):
        path, target = folder / f"{which}.c", folder / f"{which}.so"
        named = str(source.path).replace("\\", "\\\\").replace('"', '\\"')
        path.write_bytes(f'#line 1 "{named}"\n{as_c(content)}{wrappers}'.encode("utf-8", "surrogateescape"))
        targets.append(target)
        jobs.append([compiler, *toolchain.cflags, *common, *plain, *flags, "-o", target, path, *link_flags(toolchain)])
    executable, job = driver_job(folder, toolchain)
    jobs.append(job)
    done = compile_all(jobs, len(jobs), SECONDS, lambda finished: None)
    for number, (one, job) in enumerate(zip(done, jobs, strict=True)):
        if one is not None and not one.ok and number == 0:  # there may be no library of the sanitizer
            one = run_compiler([part for part in job if part not in _SANITIZED], SECONDS)
        if one is None or not one.ok:
            which = ("source", "output", "driver")[number]
            return f"the {which} cannot be compiled with calls of it: {one.message if one else ''}"
    return executable, targets[0], targets[1]


_TOLD = re.compile(r"^(?P<where>.*?:\d+:\d+): runtime error: (?P<what>.*)$", re.MULTILINE)
"""What the sanitizer says."""


def _judged(
    made: Sequence[Case],
    outcomes: Sequence[Mapping[Side, Outcome] | None],
    not_called: Mapping[str, str],
    *,
    reassociate: bool,
) -> Checked:
    calls = 0
    called: set[str] = set()
    missing: dict[str, str] = {}
    long: dict[str, str] = {}
    faults: dict[str, Fault] = {}
    undefined: dict[tuple[str, str, str], Undefined] = {}
    for case, found in zip(made, outcomes, strict=True):
        if found is None:
            missing.setdefault(
                case.subject.function, "at the sizes that were tried it takes too long to be interpreted"
            )
            continue
        name, mine = case.subject.function, found[Side.SOURCE]
        why = mine.not_here or found[Side.OUTPUT].not_here
        if why is not None:
            missing.setdefault(name, why)
            continue
        if mine.failure is not None:
            if case.filling is not FILLINGS[0]:
                continue  # numbers that no caller need give it
            told = _TOLD.search(mine.said)
            if told is None and case.guessed:
                continue
            where, what = (told["where"], told["what"]) if told else ("", f"the source {mine.failure}")
            undefined.setdefault((name, where, what), Undefined(name, where, what, case.sizes))
            continue
        calls += 1
        called.add(name)
        if name not in faults and (wrong := _difference(case, found, reassociate=reassociate)):
            data = case.filling.name + (f", {case.overlap.name}," if case.overlap else "")
            faults[name] = Fault(name, case.sizes, data, wrong)
    missing |= {name: why for name, why in long.items() if name not in called}
    return Checked(calls, tuple(faults.values()), tuple(undefined.values()), {**missing, **not_called})


def _difference(case: Case, found: Mapping[Side, Outcome], *, reassociate: bool) -> str | None:
    """What the output does and the source does not, a clause; None: nothing."""
    mine, theirs = found[Side.SOURCE], found[Side.OUTPUT]
    if theirs.failure is not None:
        return f"it {theirs.failure}"
    both = [found[side] for side in (Side.UPWARD, Side.DOWNWARD)]
    if mine.inexact and not all(one.ran for one in both):
        return None  # the source hangs or fails for another rounding: nothing is known of how exact it is
    for one in case.compared:
        rounded = (both[0].results[one.number], both[1].results[one.number]) if mine.inexact else None
        runs = Runs(
            mine.results[one.number], theirs.results[one.number], rounded, classes_only=case.filling.classes_only,
            zeros_signed=not (reassociate and case.subject.zeros_open), only_finite=reassociate and case.filling.finite,
        )  # fmt: skip
        different = first_difference(runs, one.element, one.cells)
        if different is not None:
            place = f"{case.call.objects[one.number].name}{different.place if one.number else ''}"
            return f"{place} is {different.output}, and the source computes {different.source}"
    return None
