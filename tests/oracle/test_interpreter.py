"""The reference interpreter of C beside gcc: random functions at -O0 with the sanitizer of undefined behaviour, and the
types of random expressions, which `_Generic` tells."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import pytest

from polydl.oracle.c_program import parse
from polydl.oracle.c_verdicts import Undefined
from polydl.oracle.interpreter import Memory, call
from tests.compiling import run_compiler, run_program
from tests.oracle import c_generator
from tests.oracle.c_generator import HALF, INTEGERS, PREFIX, Generator, Written, functions

FUNCTIONS, INPUTS = 8, 8
SEEDS = 16
CODES = {
    "_Bool": "?", "char": "b", "signed char": "b", "unsigned char": "B", "short": "h", "unsigned short": "H",
    "int": "i", "unsigned": "I", "long": "q", "unsigned long": "Q", "long long": "q", "unsigned long long": "Q",
    "float": "f", "double": "d", HALF: "e",
}  # fmt: skip
SANITIZED = ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define CALL(type, ...) do {{ fflush(stdout); if (fork() == 0) {{ freopen("/dev/null", "w", stderr); \\
    const type found = __VA_ARGS__; \\
    for (unsigned k = 0; k < sizeof found; k++) printf("%02x", ((const unsigned char *)&found)[k]); \\
    fflush(stdout); _exit(0); }} int status; wait(&status); puts(status ? "undefined" : ""); }} while (0)
int main(void)
{{
{calls}
    return 0;
}}
"""


def literal(kind: str, value: int | float) -> str:
    """C of a value, to the bit."""
    bits = int.from_bytes(struct.pack(f"<{CODES[kind]}", value), "little")
    if kind in INTEGERS:
        return f"({kind}){bits}ul"
    whole = {2: "unsigned short", 4: "unsigned", 8: "unsigned long"}[struct.calcsize(CODES[kind])]
    return f"((union {{ {whole} bits; {kind} value; }}){{ {bits}ul }}).value"


def compiled(text: str, folder: Path, *flags: str) -> list[str]:
    """The lines that a program prints."""
    source, program = folder / "t.c", folder / "t"
    source.write_text(text)
    done = run_compiler(["gcc", "-std=gnu11", "-O0", "-w", *flags, "-ffp-contract=off", "-o", program, source, "-lm"])
    assert done.returncode == 0, done.stderr
    return run_program([program]).stdout.splitlines()


def same(kind: str, mine: bytes, theirs: bytes) -> bool:
    """Equal bits; of NaN any."""
    values = [struct.unpack(f"<{CODES[kind]}", one)[0] for one in (mine, theirs)]
    return mine == theirs or all(value != value for value in values)


def ran(written: list[Written], given: list[tuple[Written, tuple[int | float, ...]]]) -> list[str]:
    """What the interpreter makes of each call: bytes of the result, or why it is undefined."""
    program = parse("\n".join([PREFIX, *(one.text for one in written)]))
    found = []
    for one, values in given:
        try:
            value = call(program, one.name, list(values), Memory()).value
        except Undefined as error:
            found.append(f"undefined: {error.kind}")
        else:
            found.append(struct.pack(f"<{CODES[one.returns]}", value).hex())
    return found


@pytest.mark.parametrize("group", range(SEEDS // 4))
def test_random_functions(tmp_path: Path, group: int) -> None:
    """Equal where they are defined, and undefined where gcc finds them so."""
    table: Counter[str] = Counter()
    for seed in range(4 * group, 4 * group + 4):
        compare(tmp_path, seed, table)
    every = table.total()
    assert table["equal"] > every // 4 and table["undefined"] > every // 16
    assert every - table["equal"] - table["undefined"] <= every // 16


def compare(folder: Path, seed: int, table: Counter[str]) -> None:
    written = functions(seed, FUNCTIONS, halves=seed % 2 == 1)
    chance = random.Random(seed)
    given = [(one, one.inputs(chance)) for one in written for _ in range(INPUTS)]
    calls = []
    for one, values in given:
        arguments = ", ".join(literal(kind, value) for kind, value in zip(one.parameters, values, strict=True))
        calls.append(f"    CALL({one.returns}, {one.name}({arguments}));")
    text = "\n".join([PREFIX, *(one.text for one in written), MAIN.format(calls="\n".join(calls))])
    for (one, values), mine, theirs in zip(given, ran(written, given), compiled(text, folder, *SANITIZED), strict=True):
        where = f"seed {seed}: {one.name}{values}\n{one.text}"
        if theirs == "undefined":
            assert mine.startswith("undefined"), where
            table["undefined"] += 1
        elif mine.startswith("undefined"):
            table[mine] += 1  # gcc asks nothing of what nobody uses, or of what it narrows first: (char)(x * y)
        else:
            assert same(one.returns, bytes.fromhex(mine), bytes.fromhex(theirs)), f"{where}\n{mine}, {theirs} of gcc"
            table["equal"] += 1


def test_types_of_expressions(tmp_path: Path) -> None:
    kinds = list(CODES)
    chosen = ", ".join(f"{kind}: {number}" for number, kind in enumerate(kinds))
    bodies = []
    chance = random.Random(7)
    for number in range(400):
        made = Generator(chance, number, [], halves=True)
        made.variables = [(f"x{at}", kind) for at, kind in enumerate(kinds)]
        made.fresh_statement()
        parameters = ", ".join(f"{kind} {name}" for name, kind in made.variables)
        arrays = "int a[4] = {0}; float b[4] = {0}; struct S s = {0}, t = s; short m[2][4] = {0}; float *p = b;"
        expression = made.expression(3)
        bodies.append(f"int f{number}({parameters}) {{ {arrays} return _Generic(({expression}), {chosen}); }}")
    text = "\n".join([PREFIX, *bodies])
    calls = "\n".join(f'    printf("%d\\n", f{n}({", ".join("0" for _ in kinds)}));' for n in range(len(bodies)))
    theirs = compiled(text + MAIN.format(calls=calls), tmp_path)
    program = parse(text)
    zeros = [0.0 if kind in (*c_generator.REALS, HALF) else 0 for kind in kinds]
    for number, wanted in enumerate(theirs):
        found = call(program, f"f{number}", zeros, Memory()).value
        assert isinstance(found, int)
        assert kinds[found] == kinds[int(wanted)], bodies[number]
    assert len(set(theirs)) >= 8, "all kinds of types are seen"
