"""Hostile C files: programs of a grammar that knows no rules, files of the corpus spoilt, text that is no C at all.

Each input is determined by a seed and a number, so that one that fails is found again by its number alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("tests/programs", "tests/reject", "examples")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"(?:\\.|[^\"\\\n])*\"|[ \t]+|\n|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|.")
NUMBERS = ("0", "1", "2", "7", "-1", "16", "1024", "2147483647", "-2147483648", "4294967296", "0x7fffffffffffffffL",
           "99999999999999999999", "1e308", "0.5f", "010", "0b11", "'a'", "1ull", "08")  # fmt: skip
NAMES = ("i", "j", "k", "n", "m", "A", "B", "C", "x", "y", "s", "N", "M", "f", "g", "polydl_x", "c0", "t1", "_Bool",
         "__attribute__", "S0", "exists", "mod", "floor", "and", "or", "not", "true", "rat", "infty", "NaN", "min",
         "max", "restrict", "isl", "if", "é", "int")  # fmt: skip
TYPES = ("int", "float", "double", "long", "unsigned", "char", "short", "_Bool", "unsigned long long", "size_t",
         "const int", "float _Complex", "void", "struct s", "_Float16", "T")  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>", ",")
ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
PRAGMAS = ("#pragma scop", "#pragma endscop", "#pragma polydl", "#pragma polydl assume({e})",
           "#pragma polydl live_out({n})", "#pragma polydl dead({n})",
           "#pragma polydl microkernel call({n}(&{n}[{e}], {e}))",
           "#pragma polydl microkernel loops(for ({n} = {e}; {e}; {n}++) {n}[{e}] += {e};)", "#pragma polydl {n}",
           "#pragma polydl assume(", "#pragma polydl live_out(A, B) dead(C", "#pragma omp parallel for", "#pragma",
           '_Pragma("scop")', "#pragma polydl assume({e}) \\")  # fmt: skip
DIRECTIVES = ("#define {n} {e}", "#define {n}({n}) {e}", "#undef {n}", "#if {e}", "#else", "#endif", "#ifdef {n}",
              '#include "{n}.h"', "#include <stdio.h>", "#include <math.h>", "#line {m}", '#line {m} "{n}"',
              "#error {n}", '#include "/dev/zero"', "#include {n}", "#elif", "#", '# 1 "x" 3', "#define {n} {n} {n}",
              "#define EMPTY", "#define __LINE__ 3", "#define int float", "#define for if", '#embed "{n}"')  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hostile:
    """An input and how it is read."""

    number: int
    kind: str
    data: bytes
    sizes: dict[str, int]
    require_sizes: bool
    strict_alias: bool


@cache
def corpus() -> tuple[str, ...]:
    """The C files that inputs are made from."""
    return tuple(p.read_text() for folder in FOLDERS for p in sorted((ROOT / folder).glob("*.c")))


def hostile(seed: int, number: int) -> Hostile:
    """Input `number` of the sequence that `seed` names."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choices(tuple(KINDS), tuple(weight for weight, _ in KINDS.values()))[0]
    text = KINDS[kind][1](rng)
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    names = rng.sample(("n", "m", "N", "M", "K", "i", "A"), rng.randrange(4)) if rng.random() < 0.15 else []
    sizes = {name: rng.choice((0, 1, 2, 7, 16, 64, 1000, -3, 2**31, 2**70)) for name in names}
    return Hostile(number, kind, data, sizes, rng.random() < 0.3, rng.random() < 0.1)


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _changed(rng: random.Random) -> str:
    """A file of the corpus with some tokens deleted, doubled, swapped, or replaced by others."""
    tokens = _tokens(rng.choice(corpus()))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 9))):
        at = rng.randrange(len(tokens))
        match rng.randrange(8):
            case 0:
                del tokens[at : at + rng.choice((1, 1, 2, 8))]
            case 1:
                tokens[at:at] = tokens[at : at + rng.choice((1, 5, 40))]
            case 2:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = rng.choice(NUMBERS)
            case 4:
                tokens[at] = rng.choice((*OPERATORS, *ASSIGNMENTS, *"(){}[];?:~!"))
            case 5:
                tokens[at] = rng.choice((*NAMES, *TYPES))
            case 6:
                tokens[at] = f"\n{_filled(rng, rng.choice((*PRAGMAS, *DIRECTIVES)))}\n"
            case 7:
                tokens[at] = rng.choice(_tokens(rng.choice(corpus())))
        if not tokens:
            tokens = [";"]
    return "".join(tokens)


def _numbers_changed(rng: random.Random) -> str:
    """A file of the corpus with other numbers: sizes that overflow, bounds that run away."""
    text, share, numbers = rng.choice(corpus()), rng.choice((0.03, 0.1, 0.3)), rng.choice((NUMBERS, NUMBERS[:7]))
    return re.sub(r"\b\d+\b", lambda m: rng.choice(numbers) if rng.random() < share else m.group(), text)


def _gentle(rng: random.Random) -> str:
    """Loops over affine bounds and subscripts that mostly stay inside of the arrays; something odd here or there."""

    def term(names: list[str]) -> str:
        if not names or rng.random() < 0.1:
            return str(rng.randrange(6))
        scale = rng.choice(("", "", "", "2 * ", "-", "3 * "))
        number, other = rng.randrange(5), rng.choice(names)
        more = rng.choice(("", "", f" + {number}", f" - {number}", f" + {other}", " / 2", " % 3"))
        return f"{scale}{rng.choice(names)}{more}"

    def element(names: list[str]) -> str:
        name, rank = rng.choice((("A", 1), ("B", 2), ("C", 2), ("D", 3), ("s", 0), ("t", 0)))
        return name + "".join(f"[{term(names)}{rng.choice(('', ' + 50'))}]" for _ in range(rank))

    def value(names: list[str], depth: int) -> str:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice((element(names), element(names), term(names), "0.5f", "alpha", str(rng.randrange(9))))
        one, other = value(names, depth - 1), value(names, depth - 1)
        sign = rng.choice("+-*/")
        return rng.choice((f"({one} {sign} {other})", f"fmaxf({one}, {other})", f"({one} < {other} ? {one} : 0)",
                           f"sqrtf({one})", f"-{one}", f"(float)({one})"))  # fmt: skip

    def block(names: list[str], depth: int) -> str:
        pieces = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            if depth and rng.random() < 0.75:
                free = [n for n in ("i", "j", "k", "l", "p") if n not in names]
                name = rng.choice(free) if free else "q"
                low, high = rng.choice(("0", "1", term(names))), rng.choice(("20", "n", "N", "m", term(names), "33"))
                head = rng.choice((f"int {name} = {low}; {name} < {high}; {name}++",) * 5 + (
                    f"int {name} = {high} - 1; {name} >= {low}; {name}--",
                    f"long {name} = {low}; {name} <= {high}; {name} += 2",
                    f"unsigned {name} = 0; {name} < {high}; ++{name}",
                    f"int {name} = {low}; {name} != 20; {name}++",
                    f"int {name} = {low}; {name} < {high} && {name} < 15; {name} += 3"))  # fmt: skip
                pieces.append(f"for ({head}) {{ {block([*names, name], depth - 1)} }}")
            elif depth and rng.random() < 0.4:
                sign = rng.choice(("<", ">=", "==", "!="))
                pieces.append(f"if ({term(names)} {sign} {term(names)}) {{ {block(names, depth - 1)} }}")
            else:
                pieces.append(f"{element(names)} {rng.choice(('=', '+=', '*=', '-='))} {value(names, 2)};")
        return "\n".join(pieces)

    body = block([], rng.choice((2, 3, 4)))
    if rng.random() < 0.3:
        tokens = _tokens(body)
        tokens[rng.randrange(len(tokens))] = rng.choice((*NAMES, *NUMBERS, *OPERATORS, *ASSIGNMENTS))
        body = "".join(tokens)
    sizes = rng.choice(("int n, int m", "long n, unsigned m", "short n, int m", "size_t n, const int m"))
    return (
        "#include <math.h>\n#include <stddef.h>\n#define N 24\n"
        f"void f({sizes}, float alpha, float A[restrict 900], float B[restrict 200][200], double C[restrict 300][150], "
        f"float D[restrict 99][100][101])\n{{\nfloat s = 0, t = 1;\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )


def _names_changed(rng: random.Random) -> str:
    """A file of the corpus with one name replaced by another everywhere."""
    text = rng.choice(corpus())
    words = sorted(set(re.findall(r"\b[A-Za-z_]\w*\b", text)))
    old, new = rng.choice(words), rng.choice((*NAMES, *words))
    return re.sub(rf"\b{old}\b", new, text)


def _joined(rng: random.Random) -> str:
    """The beginning of one file and the end of another."""
    one, other = rng.choice(corpus()), rng.choice(corpus())
    return one[: rng.randrange(len(one))] + other[rng.randrange(len(other)) :]


def _flipped(rng: random.Random) -> bytes:
    """A file of the corpus with some bytes changed."""
    data = bytearray(rng.choice(corpus()).encode())
    for _ in range(rng.choice((1, 2, 8, 64))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _garbage(rng: random.Random) -> bytes:
    """No C at all."""
    if rng.random() < 0.5:
        return rng.randbytes(rng.randrange(300))
    words = (*NAMES, *NUMBERS, *OPERATORS, *TYPES, "{", "}", "(", ")", "[", "]", ";", "\n", '"', "'", "\\\n",
             "/*", "*/", "//", "??=", "#", "\0", "\r", "\ufeff", "for", "if", "while", "do", "return", "goto", "switch",
             "case")  # fmt: skip
    return " ".join(rng.choice(words) for _ in range(rng.randrange(200))).encode()


def _deep(rng: random.Random) -> str:
    """Too much of one thing."""
    many = rng.choice((10, 50, 200, 1000, 5000))
    inner = rng.choice(("(", "[", "{", "-", "!", "~ ", "*", "(int)", "if (1) ", "for (int i = 0; i < 9; i++) ", "1 + ",
                        "A[", "f(", "1 ? 2 : ", "while (1) ", "x = ", "sizeof ", "L: "))  # fmt: skip
    closing = {"(": ")", "[": "]", "{": "}", "A[": "]", "f(": ")"}.get(inner, "")
    nest = inner * many + rng.choice(("1", "x", "A[0]", ";")) + closing * many
    before = rng.choice(("x = ", "A[i] = ", "", "int y = ", "A["))
    body = rng.choice(
        (
            f"#pragma scop\nfor (int i = 0; i < 8; i++) {{ {before}{nest}; }}\n#pragma endscop",
            f"#pragma scop\nfor (int i = 0; i < {nest}; i++) A[i] = 0;\n#pragma endscop",
            f"for (int i = 0; i < 8; i++) A[i] = {nest};",
            f"{nest};",
            f"#define Z {nest}\nA[0] = Z;",
        )
    )
    return f"void f(float A[100])\n{{\n{body}\n}}\n"


def _macros(rng: random.Random) -> str:
    """Macros that expand to each other, to very much, or to parts of loops."""
    levels = 24 if rng.random() < 0.05 else rng.randrange(2, 11)
    width = rng.choice((1, 2, 3))
    joint = rng.choice((" + ", " ", ", ", "; ", " * "))
    lines = [f"#define M0 {_expression(rng, 1)}"]
    lines += [f"#define M{k} {joint.join([f'M{k - 1}'] * width)}" for k in range(1, levels)]
    use = rng.choice(("A[i] = {};", "A[{}] = 0;", "for (int j = 0; j < {}; j++) A[j] = 0;", "{}"))
    body = use.format(f"M{levels - 1}")
    lines += ["void f(int n, float A[n])", "{", "#pragma scop", f"for (int i = 0; i < n; i++) {body}"]
    return "\n".join([*lines, "#pragma endscop", "}", ""])


def _filled(rng: random.Random, text: str) -> str:
    for mark, made in (("{n}", lambda: rng.choice(NAMES)), ("{e}", lambda: _expression(rng, 2)),
                       ("{m}", lambda: rng.choice(NUMBERS))):  # fmt: skip
        while mark in text:
            text = text.replace(mark, made(), 1)
    return text


def _expression(rng: random.Random, depth: int) -> str:
    if depth <= 0 or rng.random() < 0.25:
        return rng.choice(NUMBERS) if rng.random() < 0.4 else rng.choice(NAMES)

    def inner() -> str:
        return _expression(rng, depth - 1)

    match rng.randrange(12):
        case 0 | 1 | 2 | 3:
            return f"{inner()} {rng.choice(OPERATORS)} {inner()}"
        case 4:
            return f"({inner()})"
        case 5:
            return f"{rng.choice(NAMES)}[{inner()}]"
        case 6:
            return f"{rng.choice(NAMES)}[{inner()}][{inner()}]"
        case 7:
            return f"{rng.choice((*NAMES, 'fmaf', 'sqrtf', 'fmax', 'abs'))}({inner()}, {inner()})"
        case 8:
            return f"{rng.choice(('-', '!', '~', '*', '&', '++', '--', '(float)', 'sizeof'))}{inner()}"
        case 9:
            return f"{inner()} ? {inner()} : {inner()}"
        case 10:
            return f"{inner()} {rng.choice(ASSIGNMENTS)} {inner()}"
        case _:
            return f"{inner()}{rng.choice(('++', '--', '.x', '->y', '(int){1}'))}"


def _affine(rng: random.Random) -> str:
    """What a bound or subscript might well be."""
    one = rng.choice(("i", "j", "k", "n", "m", "N", rng.choice(NUMBERS[:6])))
    if rng.random() < 0.5:
        return one
    scale, other = rng.choice(("2 * ", "", "-", "3 * ")), rng.choice(("i", "n", "1", "2", "8", "0"))
    return f"{scale}{one} {rng.choice('+-/%*')} {other}"


def _statement(rng: random.Random, depth: int) -> str:
    if depth <= 0 or rng.random() < 0.3:
        match rng.randrange(6):
            case 0 | 1 | 2:
                one, other = f"A[{_affine(rng)}]", f"B[{_affine(rng)}][{_affine(rng)}]"
                target, right = rng.choice((one, other, "s", "x")), rng.choice((one, other, "s", _expression(rng, 2)))
                return f"{target} {rng.choice(ASSIGNMENTS)} {right};"
            case 3:
                return f"{rng.choice(TYPES)} {rng.choice(NAMES)} = {_expression(rng, 2)};"
            case 4:
                return rng.choice(("break;", "continue;", "return;", "goto L;", "L: ;", ";", "case 3: ;", 'asm("");'))
            case _:
                return f"{_expression(rng, 3)};"
    body = _statement(rng, depth - 1)
    if rng.random() < 0.6:
        body = "{ " + " ".join(_statement(rng, depth - 1) for _ in range(rng.randrange(4))) + body + " }"
    match rng.randrange(10):
        case 0 | 1 | 2 | 3 | 4 | 5:
            name = rng.choice(("i", "j", "k", "i"))
            kind = rng.choice(("int ", "int ", "long ", "unsigned ", "", "float ", "char "))
            step = rng.choice(
                ("{}++", "{}++", "{} += 2", "{}--", "{} -= 3", "++{}", "{} += n", "{} *= 2", "", "{} += 0")
            )
            step = step.format(name)
            sign = rng.choice(("<", "<", "<=", ">", ">=", "!=", "=="))
            bound = _affine(rng) if rng.random() < 0.8 else _expression(rng, 2)
            return f"for ({kind}{name} = {_affine(rng)}; {name} {sign} {bound}; {step}) {body}"
        case 6 | 7:
            condition = f"{_affine(rng)} {rng.choice(('<', '==', '>=', '!='))} {_affine(rng)}"
            if rng.random() < 0.3:
                condition = _expression(rng, 2)
            other = f" else {_statement(rng, depth - 1)}" if rng.random() < 0.4 else ""
            return f"if ({condition}) {body}{other}"
        case 8:
            return f"while ({_expression(rng, 1)}) {body}"
        case _:
            return f"\n{_filled(rng, rng.choice((*PRAGMAS, *DIRECTIVES)))}\n{body}"


def _grammar(rng: random.Random) -> str:
    """Functions of loops that may be anything from a scop to nonsense."""
    lines = [_filled(rng, rng.choice(DIRECTIVES)) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
    if rng.random() < 0.3:
        lines.append(rng.choice(("typedef float T;", "struct s { int x; };", "static float A[8][N];", "enum { N = 9 };",
                                 "int g(int x) { return x; }", "extern float *A;", "const int N = 7;")))  # fmt: skip
    lines += ["#ifndef N", "#define N 40", "#endif"] if rng.random() < 0.6 else []
    for number in range(rng.choice((1, 1, 1, 2))):
        arrays = rng.choice(("float A[N], float B[N][N]", "float A[n], float B[n][n]", "double *A, float (*B)[8]",
                             "float A[restrict 100], float B[restrict 100][100]",
                             "int A[], int B[][3]", "void"))  # fmt: skip
        lines.append(f"void f{number}(int n, int m, {arrays})\n{{")
        lines.append("float s = 0, x; int i, j, k;" if rng.random() < 0.5 else "")
        marked = rng.random() < 0.7
        lines += ["#pragma scop"] if marked else []
        lines += [_statement(rng, rng.choice((1, 2, 3, 4, 5))) for _ in range(rng.choice((1, 1, 2, 3)))]
        lines += ["#pragma endscop"] if marked else []
        lines.append("}")
    return "\n".join(lines) + "\n"


KINDS: dict[str, tuple[float, Callable[[random.Random], str | bytes]]] = {
    "changed": (25, _changed),
    "grammar": (20, _grammar),
    "gentle": (15, _gentle),
    "numbers": (8, _numbers_changed),
    "names": (7, _names_changed),
    "joined": (6, _joined),
    "flipped": (7, _flipped),
    "garbage": (4, _garbage),
    "deep": (4, _deep),
    "macros": (3, _macros),
}
"""Weight and maker of each kind of input."""
