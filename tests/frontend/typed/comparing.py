"""Cores run beside the reference interpreter of C, on the same bytes: programs of the repository and random ones.

python -m tests.frontend.typed.comparing [--seeds 200] [--fillings 2] [NAME …]
"""

from __future__ import annotations

import argparse
import math
import random
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from polydl.base.errors import PolyDLError
from polydl.base.recursion import deep
from polydl.frontend.typed.byte_memory import Whole
from polydl.frontend.typed.interpret import Machine, Memory, NotRun, Undefined
from polydl.frontend.typed.nodes import Block, Function, If, Loop, Opaque, Program
from polydl.frontend.typed.verified import verify
from polydl.oracle import c_memory, c_verdicts, interpreter
from polydl.oracle.c_memory import Fill, Obj, Pointer
from polydl.oracle.c_program import CProgram, parse
from polydl.oracle.fillings import Filling, fillings
from polydl.oracle.given_arguments import Setting, arguments
from polydl.oracle.scop_numbers import Unsupported
from tests.frontend.typed.reading import core_of, core_of_file
from tests.fuzz import calls, whole_programs
from tests.oracle import c_generator
from tests.oracle.comparing import Case, _is_parameter, cases, preprocessed

STEPS = 60_000
EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one call."""

    name: str
    verdict: str
    """`equal`, `different: …`, `undefined`, or why it was not run."""


class _Listed(c_memory.Memory):
    """A memory that knows its objects."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: list[Obj] = []

    def new(
        self,
        name: str,
        size_bytes: int | None,
        *,
        fill: Fill | None = None,
        origin: str = "argument",
        readonly: bool = False,
    ) -> Obj:
        made = super().new(name, size_bytes, fill=fill, origin=origin, readonly=readonly)
        self.objects.append(made)
        return made


def opaque(block: Block) -> Iterator[Opaque]:
    """The text that a core keeps."""
    for node in block.items:
        match node:
            case Opaque():
                yield node
            case If(_, then, other):
                yield from opaque(then)
                yield from opaque(other)
            case Loop(test, body, step):
                for one in (test, body, step):
                    yield from opaque(one)


def _passed(value: Any) -> Any:
    if isinstance(value, Pointer):
        return 0 if value.obj is None else value.obj.address + value.offset
    return Whole(value) if isinstance(value, bytes) else value


def _alike(one: bytes, other: bytes) -> bool:
    """Whether bytes are equal, but for what NaNs carry."""
    if one == other:
        return True
    for code, width in (("<f", 4), ("<d", 8)):
        if len(one) % width == 0 and all(
            one[at : at + width] == other[at : at + width]
            or all(math.isnan(struct.unpack(code, data[at : at + width])[0]) for data in (one, other))
            for at in range(0, len(one), width)
        ):
            return True
    return False


def _same_result(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, Pointer):
        return (one.offset - other) % (1 << 40) == 0 if one.obj is not None else bool(other == 0)
    if isinstance(one, bytes):
        return isinstance(other, Whole) and _alike(one, other.data)
    return bool(one == other)


def run_beside(core: Program, program: CProgram, name: str, given: Sequence[Any], memory: _Listed) -> str:
    """The verdict of a call in both interpreters, whose objects are those of the oracle's memory."""
    objects = interpreter.objects(program, memory)
    there = list(memory.objects)
    if any(obj.elastic for obj in there):
        return "an array without a size"
    mine = Memory()
    for obj in there:
        unset = None if obj.unset is None else bytes(obj.unset[: obj.size])
        mine.put(obj.address, obj.content(), unset)
    at = {name.partition(".")[0]: obj.address for name, obj in objects.items()}
    passed = [_passed(value) for value in given]
    try:
        wanted = interpreter.call(program, name, list(given), memory, steps=STEPS).value
    except c_verdicts.Undefined as error:
        return f"undefined: {error.kind}"
    except (c_verdicts.StepLimit, c_verdicts.Unsupported) as error:
        return f"not run by the oracle: {error.message}"
    try:
        with deep():
            found = Machine(core, mine, at).call(name, passed)
    except NotRun as error:
        return f"not run: {error}"
    except Undefined as error:
        return f"different: undefined here, {error}"
    for obj in there:
        if obj.origin in ("argument", "static") and not _alike(obj.content(), mine.content(obj.address)):
            return f"different: {obj.name}"
    return EQUAL if _same_result(wanted, found) else f"different: {wanted!r} and {found!r} are returned"


@cache
def _fillings(number: int) -> tuple[Filling, ...]:
    return tuple(fillings(bound=3)[:number])


def sizes_of(case: Case) -> tuple[dict[str, int], dict[str, int]]:
    """Macros and other sizes of a file of the catalogues, tiny."""
    text = case.path.read_text(encoding="utf-8")
    small = {name: min(value, 3 + place % 3) for place, (name, value) in enumerate(case.sizes.items())}
    defines = {name: value for name, value in small.items() if not _is_parameter(name, text)}
    return defines, {name.rpartition("_")[2]: value for name, value in small.items() if name not in defines}


def core_of_case(case: Case, defines: Mapping[str, int]) -> Program:
    """The core of a file, verified."""
    core = core_of_file(case.path, [f"-D{name}={value}" for name, value in defines.items()])
    verify(core)
    return core


def compared_file(case: Case, number: int) -> list[Outcome]:
    """What became of the functions of a file, with each of some fillings."""
    defines, sizes = sizes_of(case)
    core = core_of_case(case, defines)
    found = [Outcome(f"{case.name}: {name}", f"refused: {why}") for name, why in core.refused.items()]
    text = case.path.read_text(encoding="utf-8")
    program = parse(preprocessed(text, case.path.parent, defines))
    for function in core.functions.values():
        for filling in _fillings(number):
            found.append(Outcome(f"{case.name}: {function.name}", _one(core, program, function, filling, sizes)))
    return found


def _one(core: Program, program: CProgram, function: Function, filling: Filling, sizes: Mapping[str, int]) -> str:
    verdict = "not run"
    for setting in (
        Setting(filling, sizes, size=3, elements=400),
        Setting(filling, {name: 3 * size for name, size in sizes.items()}, size=1, elements=600),
        Setting(Filling("equal", "zeros"), sizes, size=4, elements=600),
    ):
        memory = _Listed()
        try:
            given = arguments(program, function.name, setting, memory)
        except (Unsupported, KeyError, c_verdicts.Unsupported) as error:
            return f"no data: {error!s}"
        verdict = run_beside(core, program, function.name, given, memory)
        if not verdict.startswith("undefined"):
            break
    return verdict


def compared_seed(seed: int) -> Outcome:
    """What became of a random program."""
    made, _ = whole_programs.program(random.Random(seed), ())
    rng = random.Random(seed)
    sizes = {one.name: rng.choice([v for v in one.values if v <= 8] or one.values[:1]) for one in made.sizes}
    case = calls.Case(sizes, calls.FILLINGS[seed % len(calls.FILLINGS)], seed, 1)
    text = made.called("_0")
    core = core_of(text)
    verify(core)
    name = f"seed {seed}: f_0"
    if "f_0" not in core.functions:
        return Outcome(name, f"refused: {core.refused.get('f_0')}")
    program = parse(preprocessed(text, cases()[0].path.parent, {}))
    memory = _Listed()
    given: list[Any] = [sizes[one.name] for one in made.sizes if not one.macro]
    for number, array in enumerate(made.arrays):
        before = calls.filled(array, max(array.elements().value(sizes), 0), case, number, made.exact)
        there = memory.new(array.name, before.nbytes, fill=before.tobytes())
        if array.style == "pointers" and len(array.dims) == 2:
            rows, width = (dim.value(sizes) for dim in array.dims)
            places = [there.address + row * width * before.dtype.itemsize for row in range(rows)]
            there = memory.new(f"{array.name} rows", 8 * rows, fill=np.array(places, np.uint64).tobytes())
        given.append(Pointer(there, 0))
    return Outcome(name, run_beside(core, program, "f_0", given, memory))


def compared_functions(seed: int) -> list[Outcome]:
    """What became of random functions of typed arithmetic, some of whose inputs are undefined: that has to be found."""
    written = c_generator.functions(seed, 6, halves=seed % 2 == 1)
    text = "\n".join([c_generator.PREFIX, *(one.text for one in written)])
    core, program, rng = core_of(text), parse(text), random.Random(seed)
    verify(core)
    found = []
    for one in written:
        for _ in range(6):
            kinds = [kind for _, kind in program.functions[one.name].parameters]
            given = [interpreter._given(value, kind) for value, kind in zip(one.inputs(rng), kinds, strict=True)]
            found.append(Outcome(f"seed {seed}: {one.name}{tuple(given)}", _function(core, program, one.name, given)))
    return found


def _function(core: Program, program: CProgram, name: str, given: Sequence[Any]) -> str:
    wanted: Any = None
    undefined = ""
    try:
        wanted = interpreter.call(program, name, list(given), c_memory.Memory(), steps=STEPS).value
    except c_verdicts.Undefined as error:
        undefined = error.kind
    except (c_verdicts.StepLimit, c_verdicts.Unsupported) as error:
        return f"not run by the oracle: {error.message}"
    try:
        found = Machine(core, Memory(), {}).call(name, list(given))
    except NotRun as error:
        return f"not run: {error}"
    except Undefined as error:
        return f"undefined: {undefined}" if undefined else f"different: undefined here, {error}"
    if undefined:
        return f"different: undefined ({undefined}) there"
    return EQUAL if _same_result(wanted, found) else f"different: {wanted} and {found} are returned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files, without .c; all where there are none")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--fillings", type=int, default=2)
    given = parser.parse_args()
    table: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    functions = whole = 0
    for case in cases():
        if given.names and case.name not in given.names:
            continue
        try:
            core = core_of_case(case, sizes_of(case)[0])
        except PolyDLError as error:
            table[f"not parsed: {error.reason}"] += 1
            continue
        for function in core.functions.values():
            texts = [one.why for one in opaque(function.body)]
            functions, whole = functions + 1, whole + (not texts)
            kept.update(texts)
        _count(table, compared_file(case, given.fillings))
    for seed in range(given.first, given.first + given.seeds) if not given.names else ():
        _count(table, [compared_seed(seed)])
    for seed in range(given.first, given.first + given.seeds) if not given.names else ():
        _count(table, compared_functions(seed))
    print(f"{functions} functions of files, {whole} without text that is kept")
    for what, count in (*kept.most_common(), *table.most_common()):
        print(f"{count:6} {what}")


def _count(table: Counter[str], outcomes: Sequence[Outcome]) -> None:
    for one in outcomes:
        table[one.verdict] += 1
        if one.verdict != EQUAL and not one.verdict.startswith("undefined"):
            print(f"{one.name}: {one.verdict}", flush=True)


if __name__ == "__main__":
    main()
