"""Writes C programs that call microkernels and their plain twins on guarded memory and compare bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from polydl.kernels import microkernel, reference
from polydl.kernels.microkernel_spec import MicrokernelSpec, Reduction, Step
from polydl.kernels.scalar_text import scalar_text
from polydl.kernels.vector_text import Vectors, math_prologue, uses_functions
from polydl.model.contraction import WINDOWS
from polydl.model.expr import Binary, Conditional, Const, Expr, Load
from polydl.model.expr import Call as Applied
from polydl.model.types import F32, F64, ElementType
from polydl.target.isa import VECTOR_TYPES


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the kernel number `kernel`, with a value for every integer argument."""

    kernel: int
    m: int
    n: int
    integers: dict[str, int]


HARNESS = """
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned long seed = 1;
static int draw(void) { seed = seed * 6364136223846793005ul + 1442695040888963407ul; return (int)(seed >> 40) % 9 - 4; }
/* With zeros of both signs, and values that are no numbers. */
static __attribute__((unused)) double any(void) { const int x = draw(); return x == 4 ? NAN : x == -4 ? -0.0 : x; }
#define DIFFER(t) \
    static __attribute__((unused)) int differ_##t(const t *x, const t *y, size_t bytes) \
    { \
        for (size_t i = 0; i < bytes / sizeof *x; ++i) \
            if (!(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))) return 1; \
        return 0; \
    }
DIFFER(float)
DIFFER(double)
/* The same with zeros told apart by their signs, but not what is no number: C leaves its sign open. */
#define DIFFER_IN_BITS(t) \
    static __attribute__((unused)) int differ_in_bits_##t(const t *x, const t *y, size_t bytes) \
    { \
        for (size_t i = 0; i < bytes / sizeof *x; ++i) \
            if (memcmp(x + i, y + i, sizeof *x) && !(isnan(x[i]) && isnan(y[i]))) return 1; \
        return 0; \
    }
DIFFER_IN_BITS(float)
DIFFER_IN_BITS(double)
typedef struct { char *pages; size_t length; char *data; } guarded;
/* `bytes` of memory that end (or start) where the process may not read or write. */
static guarded take(size_t bytes, int at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    guarded g = { 0, inside + 2 * page, 0 };
    g.pages = mmap(0, g.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.pages == MAP_FAILED) exit(3);
    if (mprotect(g.pages, page, PROT_NONE) || mprotect(g.pages + page + inside, page, PROT_NONE)) exit(3);
    g.data = g.pages + page + (at_end ? inside - bytes : 0);
    return g;
}
static void drop(guarded g) { munmap(g.pages, g.length); }
"""

CHECK = """
static int check_{kernel}(const long *v, int at_end)
{{
    const size_t a_bytes = (size_t)v[5], b_bytes = (size_t)v[6], c_bytes = (size_t)v[7];
    guarded a = take(a_bytes, at_end), b = take(b_bytes, at_end), c = take(c_bytes, at_end), d = take(c_bytes, at_end);
    {t} *A = ({t} *)a.data, *B = ({t} *)b.data, *C = ({t} *)c.data, *D = ({t} *)d.data;
    for (size_t i = 0; i < a_bytes / sizeof *A; ++i) A[i] = ({t}){draw}();
    for (size_t i = 0; i < b_bytes / sizeof *B; ++i) B[i] = ({t}){draw}();
    for (size_t i = 0; i < c_bytes / sizeof *C; ++i) C[i] = D[i] = ({t}){draw}();
    {kernel}(v[0], v[1], A + v[2], B + v[3], C + v[4]{rest});
    {twin}(v[0], v[1], A + v[2], B + v[3], D + v[4]{rest});
    int differs = {differs};
    drop(a), drop(b), drop(c), drop(d);
    return differs;
}}
"""

MAIN = """
int main(void)
{
    for (int i = 0; i < (int)(sizeof calls / sizeof *calls); ++i) {
        if (calls[i].check(calls[i].v, 0) | calls[i].check(calls[i].v, 1)) printf("wrong %d\\n", i);
        fflush(stdout);
    }
    printf("done\\n");
    return 0;
}
"""


def spread(terms: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(lowest, highest) of the sum of i*stride over 0 <= i < extent for each (extent, stride); extents >= 1."""
    ends = [(extent - 1) * stride for extent, stride in terms]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def program(specs: Sequence[MicrokernelSpec], calls: Sequence[Call]) -> str:
    """A C program that prints `wrong <call>` for each call that differs, `done` at the end.

    A call that touches memory out of range kills the program. Every call runs twice, with the operands against the
    upper and against the lower guard page.
    """
    parts = [HARNESS]
    long = next((spec.long for spec in specs), "")
    parts += [microkernel.isa_prologue(dtype, long) for dtype in VECTOR_TYPES]
    parts += dict.fromkeys(text for spec in specs for text in microkernel.prologues(spec))
    for spec in dict.fromkeys(specs):
        kernel = microkernel.generate(spec)
        rest = "".join(f", v[{8 + i}]" for i in range(len(kernel.parameters) - 5))
        twin = reference.reference_name(spec)
        parts += [kernel.text, reference.reference(spec)]
        draw = "draw" if spec.step is None else "any"
        open_zeros = spec.step is not None and "fm" in spec.step.plain  # C leaves the sign of fmax's zeros open
        differ = "differ" if open_zeros else "differ_in_bits"
        differs = f"{differ}_{spec.dtype}(C, D, c_bytes)"
        parts.append(CHECK.format(t=spec.dtype, draw=draw, differs=differs, kernel=kernel.name, twin=twin, rest=rest))
    parts.append("static const struct { int (*check)(const long *, int); long v[32]; } calls[] = {")
    parts += [_row(specs[call.kernel], call) for call in calls]
    return "\n".join([*parts, "};", MAIN])


def _row(spec: MicrokernelSpec, call: Call) -> str:
    """An entry of the table of calls: m, n, offsets and bytes of A, B and C, then the further arguments."""

    def value(constant: int | None, name: str) -> int:
        return call.integers[name] if constant is None else constant

    a_terms = [(max(1, call.m), value(spec.a_m, "a_m"))]
    b_terms = [] if spec.scalar_b else [(max(1, call.n), 1)]
    a_terms.append((max(1, call.n), spec.window))
    for i, r in enumerate(spec.reductions):
        extent = max(1, value(r.extent, f"extent{i}"))
        a_terms.append((extent, value(r.a_stride, f"a_stride{i}")))
        b_terms.append((extent, value(r.b_stride, f"b_stride{i}")))
    c_terms = [(max(1, call.m), value(spec.c_m, "c_m")), (max(1, call.n), 1)]
    size = spec.dtype.bytes
    ends = [spread(terms) for terms in (a_terms, b_terms, c_terms)]
    kernel = microkernel.generate(spec)
    row = [call.m, call.n, *(-low for low, _ in ends), *((high - low + 1) * size for low, high in ends)]
    row += [call.integers[name] for name in kernel.parameters[5:]]
    return f"    {{ check_{kernel.name}, {{ {', '.join(map(str, row))} }} }},"


X, Y, M = Load(0), Load(1), Load(2)


def steps(element: ElementType) -> list[Expr]:
    """Steps of distances, of products over other semirings, and of windows, x of A, y of B, m what there was."""
    suffix = element.suffix or ""

    def call(function: str, *arguments: Expr) -> Expr:
        return Applied(f"{function}{suffix}", arguments, element)

    apart, both = Binary("-", X, Y), Binary("+", X, Y)
    return [
        Conditional(Binary("<", both, M), both, M),
        Conditional(Binary(">", X, M), X, M),
        Conditional(Binary("<", M, Y), Y, M),
        call("fmax", M, X),
        call("fmin", Binary("*", X, Y), M),
        Binary("+", M, call("fabs", apart)),
        Binary("+", M, Binary("*", apart, apart)),
        call("fmax", call("fabs", apart), M),
        Binary("*", M, Binary("+", X, Const("1"))),
    ]


def step_of(value: Expr, element: ElementType, start: str = "") -> Step:
    """A step as its vector and its plain text, from C's elements or from a number."""
    text = Vectors(element, ("x", "y", "m").__getitem__).text(value)
    plain = scalar_text(value, ("x", "y", "m").__getitem__)
    prologue = (math_prologue(element),) if uses_functions(text, element) else ()
    return Step(text, plain, f"polydl_{element.name}_all({start})" if start else "", start, prologue)


def random_window(rng: random.Random) -> MicrokernelSpec:
    """Any specification with a step in place of the sum of products, or one that reads A in vectors."""
    plain = random_spec(rng)
    window = rng.random() < 0.7
    stepping = not window or rng.random() < 0.6
    reductions, a_m = list(plain.reductions), plain.a_m
    if window and reductions and rng.random() < 0.7:  # rows that share taps
        place, stride = rng.randrange(len(reductions)), rng.choice((-7, 1, 5, 20))
        reductions[place] = Reduction(rng.randint(1, 5), stride, rng.randint(-9, 9))
        a_m = stride * rng.randint(1, 3)
    start = rng.choice(("", "-INFINITY", "3")) if stepping else ""
    step = step_of(rng.choice(steps(plain.dtype)), plain.dtype, start) if stepping else None
    return replace(
        plain,
        a_m=a_m,
        reductions=tuple(reductions),
        beta=int(not start) if stepping else plain.beta,
        negate=plain.negate and not stepping,
        alpha=plain.alpha and not stepping,
        step=step,
        window=rng.choice(WINDOWS) if window else 0,
        scalar_b=window and rng.random() < 0.5,
    )


def random_spec(rng: random.Random) -> MicrokernelSpec:
    """Any specification of sums of products: sizes around the registers' and lanes' multiples, every option."""
    dtype = rng.choice((F32, F64))
    m, n = rng.randint(1, 9), rng.choice((1, 3, 4, 7, 8, 15, 16, 17, 24, 32, 33, 48))

    def stride(most: int) -> int | None:
        return rng.choice((None, rng.randint(-most, most)))

    reductions: list[Reduction] = []
    for _ in range(rng.randint(0, 5)):
        if reductions and rng.random() < 0.3:
            # Continues the loop before it, so that the two are joined.
            outer, extent, a, b = reductions.pop(), rng.randint(1, 3), rng.randint(0, 3), rng.randint(-5, 40)
            reductions += [Reduction(outer.extent, extent * a, extent * b), Reduction(extent, a, b)]
        else:
            reductions.append(Reduction(rng.choice((None, rng.randint(0, 4))), stride(20), stride(60)))
    if reductions and rng.random() < 0.4:
        # Pairs of neighbours in A.
        reductions[-1] = Reduction(rng.choice((None, 2, 4, 6)), 1, reductions[-1].b_stride)
    return MicrokernelSpec(
        dtype,
        m,
        n,
        a_m=rng.choice((None, rng.randint(-70, 70))),
        c_m=rng.choice((None, n + rng.randint(0, 5), -n - 2)),
        reductions=tuple(reductions),
        beta=rng.randint(0, 1),
        negate=rng.random() < 0.3,
        alpha=rng.random() < 0.3,
        remainders=rng.random() < 0.8,
        prefetch=rng.choice((0, 0, 8)),
        prefetch_rows=rng.choice((0, 0, 64)),
    )


def random_call(rng: random.Random, kernel: int, spec: MicrokernelSpec, full: bool) -> Call:
    """A call of `spec` on a full or on any smaller block, empty ones included."""
    full = full or not spec.remainders
    m = spec.m if full else rng.randint(0, spec.m)
    n = spec.n if full else rng.randint(0, spec.n)
    integers = {"a_m": rng.randint(-70, 70), "c_m": spec.n + rng.randint(0, 5), "alpha": rng.randint(-3, 3)}
    for i, _ in enumerate(spec.reductions):
        integers |= {
            f"extent{i}": rng.randint(0, 4),
            f"a_stride{i}": rng.randint(-9, 9),
            f"b_stride{i}": rng.randint(-40, 40),
        }
    return Call(kernel, m, n, integers)
