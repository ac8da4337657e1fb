"""Random programs through everything that `optimize` does but timing, held against the brute-force oracle.

Domains, accesses and order (with and without sizes), dependences, and the results of the best variants: microkernels,
loop orders and schedules alike. The generated code runs under the address and undefined-behaviour sanitizers.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from hypothesis import given, seed, settings

from polydl.base.errors import InputError
from polydl.frontend import load
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.pipeline import rank
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.search.timing_order import TimingOrder
from tests.compiling import run_compiler, run_program
from tests.oracle import Limits, Program, initial_data, interpret, programs, render
from tests.oracle.interpret import Element
from tests.oracle.native import apart
from tests.oracle.render import argument_kind

OPTIONS = Options(space="small", machine="epyc-zen5", threads=2)
PLAIN = ("-std=gnu11", "-O1", "-march=native", "-fopenmp", "-w")
SANITIZED = (*PLAIN, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


@dataclass
class Tally:
    """What was checked."""

    programs: int = 0
    variants: int = 0
    refused: list[str] = field(default_factory=list)
    """Messages for programs that were not accepted."""


def texts_of(program: Program, folder: Path, most: int, options: Options = OPTIONS) -> list[str]:
    """C texts: the loops written again in their order, then texts with the best variants. Raises InputError."""
    text = render(program)
    path = folder / f"{program.name}.c"
    path.write_text(text)
    body = text[text.rindex("\n{") :]
    sizes = {n: v for n, v in program.parameters.items() if re.search(rf"\b{n}\b", body)}
    loaded = load(path, sizes=sizes)
    offered = []
    for scop in loaded.scops:
        ranking = rank(scop, options=options)
        codes = [generate(ranking.scop, program_tree([ordered(nest, ()) for nest in ranking.nests]))]
        codes += [variant.generated for variant in TimingOrder(ranking.variants, most).next({}, most)]
        offered.append((ranking.scop, codes))
    texts = []
    for number in range(max((len(codes) for _, codes in offered), default=0)):
        pieces = [(scop, codes[min(number, len(codes) - 1)]) for scop, codes in offered]
        texts.append(splice(loaded.source, pieces, ""))
    return texts


def main_text(program: Program, data: Mapping[Element, int], expected: Mapping[Element, float], count: int) -> str:
    """A main function that calls `<name>_v0`, `<name>_v1`, … on heap blocks of exactly the arrays' sizes (so that the
    address sanitizer sees every step outside) and prints what differs from the expected values."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "int main(void)", "{", "  int wrong = 0;"]
    for version in range(count):
        lines.append("  {")
        arguments = [str(value) for value in program.parameters.values()]
        checks: list[str] = []
        for number, (name, array) in enumerate(program.arrays.items()):
            indices = list(product(*(range(e) for e in array.extents)))
            values = [str(data[name, index]) for index in indices]
            if argument_kind(program, name) == "value":
                arguments.append(values[0])
                continue
            after = [str(int(expected[name, index])) for index in indices]
            lines.append(f"    static const long in{number}[] = {{{', '.join(values)}}};")
            lines.append(f"    static const long out{number}[] = {{{', '.join(after)}}};")
            lines.append(f"    {array.ctype} *a{number} = malloc({len(values)} * sizeof *a{number});")
            lines.append(f"    for (int i = 0; i < {len(values)}; i++) a{number}[i] = in{number}[i];")
            arguments.append(f"(void *)a{number}")
            checks.append(
                f"    for (int i = 0; i < {len(values)}; i++) if (a{number}[i] != out{number}[i])\n"
                f'      wrong++, printf("version {version}: {name}[%d] is %ld, not %ld\\n", i, '
                f"(long)a{number}[i], out{number}[i]);\n    free(a{number});"
            )
        lines.append(f"    {program.name}_v{version}({', '.join(arguments)});")
        lines += [*checks, "  }"]
    return "\n".join([*lines, "  return wrong != 0;", "}", ""])


def results(program: Program, folder: Path, most: int, flags: tuple[str, ...] = SANITIZED) -> int:
    """Compile the variants of a program, run them, compare with the interpreter. Returns how many. Raises InputError
    when the program is refused, AssertionError with everything needed to repeat it."""
    texts = texts_of(program, folder, most)
    data = initial_data(program, seed=1)
    expected = interpret(program, data).memory
    parts = []
    for number, text in enumerate(texts):
        text = re.sub(rf"\b{program.name}\b", f"{program.name}_v{number}", text)
        parts.append(apart(text, f"v{number}"))
    source, binary = folder / "whole.c", folder / "whole"
    source.write_text("\n".join([*parts, main_text(program, data, expected, len(texts))]))
    run_compiler(["cc", *flags, str(source), "-o", str(binary), "-lm"])
    # libgomp keeps its threads' memory until the end: that is no leak of the generated code
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "ASAN_OPTIONS": "detect_leaks=0"}
    done = run_program([str(binary)], env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "\n".join(
        [done.stdout, done.stderr, render(program), *texts]
    )
    return len(texts)


def explore(limits: Limits, count: int, number: int, most: int, tally: Tally, flags: tuple[str, ...]) -> None:
    """`count` random programs that only `number` determines. Raises AssertionError with the smallest one that fails."""

    @seed(number)
    @settings(max_examples=count, deadline=None, database=None, derandomize=False)
    @given(programs(limits))
    def run(program: Program) -> None:
        with tempfile.TemporaryDirectory(prefix="polydl-fuzz-") as folder:
            try:
                tally.variants += results(program, Path(folder), most, flags)
            except InputError as error:
                tally.refused.append(f"{error}\n{render(program)}")
            tally.programs += 1

    run()
