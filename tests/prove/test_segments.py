"""Sums over segments are read back and proved, with what is taken for granted; a mistake in them never passes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

import polydl
from polydl.lower.emit import Generated, generate
from polydl.lower.instance_marks import without_marks
from polydl.lower.splice import splice
from polydl.options import Options
from polydl.prove import Proof, prove
from polydl.results import Ranking
from polydl.search.proofs import proof_of
from polydl.search.variant import Variant

OPTIONS = Options(machine="epyc-zen4", threads=2, space="small")
HEAD = "void f(int n, int k, const int *restrict ptr, const int *restrict idx, "
PROGRAMS = {
    "spmv": HEAD + """const float *restrict val, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++) {
        float s = 0;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            s += val[p] * x[idx[p]];
        y[i] = s;
    }
}
""",
    "blocks times a vector": HEAD + """const double (*restrict val)[3][8], const double (*restrict x)[8],
    double (*restrict y)[3])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 8; c++)
                    y[i][r] -= val[p][r][c] * x[idx[p]][c];
}
""",
    "tall blocks times a vector": HEAD + """const float (*restrict val)[80][4], const float (*restrict x)[4],
    float (*restrict y)[80])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < 80; r++)
                for (int c = 0; c < 4; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];
}
""",
    "bf16": "#include <polydl.h>\n" + HEAD + """const polydl_bf16 (*restrict val)[4][8],
    const polydl_bf16 (*restrict x)[8], float (*restrict y)[4])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 8; c++)
                    y[i][r] += polydl_to_float(val[p][r][c]) * polydl_to_float(x[idx[p]][c]);
}
""",
    "bytes": HEAD + """const signed char (*restrict val)[4][8], const unsigned char (*restrict x)[8],
    int (*restrict y)[4])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 8; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];
}
""",
    "spmm": HEAD + """const float *restrict val, const float (*restrict x)[k], float (*restrict y)[k])
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i][j] += val[p] * x[idx[p]][j];
}
""",
    "blocks": HEAD + """const float (*restrict val)[8][4], const float *restrict bias,
    const float (*restrict x)[4][k], float (*restrict y)[8][k])
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 8; r++)
            for (int j = 0; j < k; j++) {
                float s = bias[j];
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 4; c++)
                        s += val[p][r][c] * x[idx[p]][c][j];
                y[i][r][j] = s > 0 ? s : 0;
            }
}
""",
    "flat": HEAD + """const float *restrict val, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < k; j++)
                y[i * k + j] += val[p] * x[idx[p] * k + j];
}
""",
    "changing": HEAD + """const float (*restrict val)[3][8], float (*restrict x)[8], float (*restrict y)[3])
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 3; r++) {
            for (int p = ptr[i]; p < ptr[i + 1]; p++)
                for (int c = 0; c < 8; c++)
                    y[i][r] += val[p][r][c] * x[idx[p]][c];
            x[i][r] = 0;
        }
}
""",
    "entries": HEAD + """const float (*restrict a)[k], const float (*restrict b)[k], float *restrict out)
{
    for (int i = 0; i < n; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            float s = 0;
            for (int c = 0; c < k; c++)
                s += a[i][c] * b[idx[p]][c];
            out[p] = s;
        }
}
""",
    "greatest": HEAD + """const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++) {
        float m = x[i];
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            m = x[idx[p]] > m ? x[idx[p]] : m;
        y[i] = m;
    }
}
""",
}  # fmt: skip


@cache
def ranking(name: str) -> Ranking:
    (scop,) = polydl.load(PROGRAMS[name], sizes={"n": 40, "k": 72}).scops
    return polydl.rank(scop, options=OPTIONS)


def chosen(name: str, word: str) -> Variant:
    """The first variant whose code has a word in it."""
    return next(v for v in ranking(name).variants if word in v.region())


def proof(name: str, variant: Variant, pattern: str, new: str) -> Proof:
    """Of a variant with a mistake in it."""
    program = ranking(name).program
    named = generate(variant.program, variant.tree, instances=True)
    region, times = re.subn(pattern, new, named.region)
    prologue = named.prologue
    if not times:
        changed = [re.subn(pattern, new, piece) for piece in prologue]
        times, prologue = sum(n for _, n in changed), tuple(text for text, _ in changed)
    assert times, pattern
    plain = replace(named, region=without_marks(region), prologue=prologue)
    marked: Generated = replace(named, region=region, prologue=prologue)
    texts = (splice(program.read.source, [(program.read, one)], "") for one in (plain, marked))
    return prove(program, *texts, rewritten=variant.program)


WORDS = [
    ("spmv", "polydl_shares_"), ("spmv", "polydl_entries_"), ("blocks times a vector", "polydl_entries_"),
    ("blocks times a vector", "polydl_sums_"), ("tall blocks times a vector", "polydl_entries_"),
    ("bf16", "polydl_sums_"), ("spmm", "polydl_mk_"), ("spmm", "polydl_shares_"), ("blocks", "polydl_mk_"),
    ("flat", "polydl_mk_"), ("bytes", "polydl_sums_"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "word"), WORDS)
def test_sums_over_segments_are_proved(name: str, word: str) -> None:
    variant = chosen(name, word)
    shown = proof_of(ranking(name).program, variant, OPTIONS)
    assert shown.holds, (shown.reason, variant.region())
    summed = re.search("polydl_(entries_[fi]|mk_)", variant.region()) is not None
    assert ("entries of tables lead to elements of their arrays, as in the file" in shown.trusted) == summed
    assert ("polydl_shares_i32: each row is in one part, or cut, whatever the array holds" in shown.trusted) == (
        "polydl_shares_" in variant.region()
    )
    assert ("sums are added up in another order than written" in shown.notes) == summed


MISTAKES = [
    ("spmv", "polydl_shares_", r"\(ptr\[i \+ 1\]\)", "(ptr[i + 2])"),
    ("spmv", "polydl_shares_", r"= ptr\[i\]", "= ptr[i + 1]"),
    ("spmv", "polydl_shares_", r"const int i = c0", "const int i = c0 + 1"),
    ("spmv", "polydl_shares_", r"&x\[0\]", "&x[1]"),
    ("spmv", "polydl_shares_", r"idx \+ polydl_first_p_of", "idx"),
    ("spmv", "polydl_shares_", r"&val\[0\] \+ polydl_first_p_of \* 1", "&val[0]"),
    ("spmv", "polydl_shares_", r"39 \+ 1", "39 + 0"),
    ("spmv", "polydl_shares_", r"(polydl_larges; )polydl_k\+\+", r"\1polydl_k += 2"),
    ("spmv", "polydl_shares_", r"polydl_part \+ 1\]; c0\+\+", "polydl_part]; c0++"),
    ("spmv", "polydl_shares_", r"continue; \}", "}"),
    ("spmv", "polydl_shares_", r"low = middle \+ 1", "low = middle + 2"),
    ("spmv", "polydl_entries_", r"p \+= 4;", "p += 5;"),
    ("spmv", "polydl_entries_", r"\+= polydl_entries", "-= polydl_entries"),
    ("blocks times a vector", "polydl_entries_", r"polydl_first_p_of \* 24", "polydl_first_p_of * 8"),
    ("blocks times a vector", "polydl_sums_", r"&val\[0\]\[0\]", "&val[0][1]"),
    ("blocks times a vector", "polydl_sums_", r"polydl_sums_p_of\[(c\d)\]", r"polydl_sums_p_of[2 - \1]"),
    ("blocks times a vector", "polydl_sums_", r"polydl_sums_p_of\[(c\d)\]", r"polydl_sums_p_of[\1 + 1]"),
    ("blocks times a vector", "polydl_sums_", r"double polydl_sums_p_of\[3\]", "double polydl_sums_p_of[2]"),
    ("blocks times a vector", "polydl_sums_", r"polydl_sums_p_of, &val", "polydl_sums_p_of, 1 + &val"),
    ("blocks times a vector", "polydl_sums_", r"x0_0 \+ 8", "x0_0 + 9"),
    ("bf16", "polydl_sums_", r"<< 16", "<< 8"),
    ("bf16", "polydl_sums_", r"polydl_first_p_of \* 32", "polydl_first_p_of * 16"),
    ("bytes", "polydl_sums_", r"cvtepu8_epi16", "cvtepi8_epi16"),
    ("bytes", "polydl_sums_", r"polydl_first_p_of \* 32", "polydl_first_p_of * 16"),
    ("tall blocks times a vector", "polydl_entries_", r"&val\[0\]\[(c\d)\]", r"&val[0][79 - \1]"),
    ("spmm", "polydl_mk_", r"&val\[0\]", "&val[1]"),
    ("spmm", "polydl_mk_", r"&y\[c0\]", "&y[39 - c0]"),
    ("spmm", "polydl_mk_", r"\(ptr\[i \+ 1\]\) -", "(ptr[i + 1] + 1) -"),
    ("spmm", "polydl_mk_", r"b_table0\[r0\] \*", "b_table0[0] *"),
    ("spmm", "polydl_mk_", r"b_table0\[r0\] \*", "b_table0[r0 + 1] *"),
    ("spmm", "polydl_mk_", r"\(ptrdiff_t\)b_table0\[r0\] \*", "r0 *"),
    ("blocks", "polydl_mk_", r"polydl_first_p_of \* 32", "polydl_first_p_of * 16"),
    ("blocks", "polydl_mk_", r"idx \+ polydl_first_p_of", "idx + 2 * polydl_first_p_of"),
    ("flat", "polydl_mk_", r"&x\[[^\]]*\]", "&x[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "word", "pattern", "new"), MISTAKES)
def test_a_mistake_is_never_proved(name: str, word: str, pattern: str, new: str) -> None:
    assert proof(name, chosen(name, word), pattern, new).verdict in ("wrong", "open")


def test_sums_that_are_made_before_what_they_read_is_written_are_never_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the pass did not look at what the loop over the rows writes."""
    monkeypatch.setattr("polydl.lower.passes.rows_together._written", lambda parts: set())
    program = ranking("changing").program
    variant = next(v for v in ranking("changing").variants if "polydl_sums_" in v.region())
    shown = proof_of(program, variant, OPTIONS)
    assert shown.verdict == "open"
    assert "before it is used" in shown.reason


@pytest.mark.parametrize("name", ["entries", "greatest"])
def test_what_is_kept_as_it_is_written_is_proved(name: str) -> None:
    variant = chosen(name, "parallel for")
    shown = proof_of(ranking(name).program, variant, OPTIONS)
    assert shown.holds, (shown.reason, variant.region())
    asked = "where ptr decreases, the loops as they were written run"
    assert (asked in shown.trusted) == (name == "entries")


@pytest.mark.parametrize(
    ("name", "pattern", "new"),
    [
        ("entries", r"const int i = c0", "const int i = c0 + 1"),
        ("entries", r"ptr\[i\]", "ptr[i + 1]"),
        ("entries", r"__builtin_prefetch\((&b[^;]*)\);", r"out[0] = *(\1);"),
        ("greatest", r"> m", "< m"),
        ("greatest", r"39 \+ 1", "39"),
    ],
)
def test_a_mistake_in_what_is_kept_is_never_proved(name: str, pattern: str, new: str) -> None:
    assert proof(name, chosen(name, "parallel for"), pattern, new).verdict in ("wrong", "open")


def test_the_order_of_rows_is_asked_for() -> None:
    """Without the question two rows may have an entry in common."""
    program, variant = ranking("entries").program, chosen("entries", "parallel for")
    named = generate(variant.program, variant.tree, instances=True)
    plain = replace(named, region=without_marks(named.region))
    texts = [splice(program.read.source, [(program.read, one)], "") for one in (plain, named)]
    without = [re.sub(r" && polydl_ordered_i32\(ptr[^)]*\)", "", text) for text in texts]
    assert without != texts
    assert prove(program, *without, rewritten=variant.program).verdict == "wrong"


@pytest.mark.parametrize(
    ("name", "pattern", "new"),
    [
        ("spmv", r"\(ptr\[i \+ 1\]\)", "(ptr[i + 2])"),
        ("spmv", r"&x\[0\]", "&x[1]"),
        ("spmm", r"const int i = c0", "const int i = c0 + 1"),
    ],
)
def test_another_sum_is_called_wrong(name: str, pattern: str, new: str) -> None:
    word = "polydl_entries_" if name == "spmv" else "polydl_mk_"
    shown = proof(name, chosen(name, word), pattern, new)
    assert shown.verdict == "wrong", shown.reason


def test_without_leave_a_sum_in_another_order_is_wrong() -> None:
    program, variant = ranking("spmv").program, chosen("spmv", "polydl_entries_")
    named = generate(variant.program, variant.tree, instances=True)
    plain = replace(named, region=without_marks(named.region))
    texts = [splice(program.read.source, [(program.read, one)], "") for one in (plain, named)]
    assert prove(program, *texts, rewritten=variant.program, reassociate=False).verdict == "wrong"


@pytest.mark.few_sizes
@pytest.mark.parametrize("name", ["spmm", "blocks", "spmv", "entries"])
def test_code_for_all_sizes_is_proved(name: str) -> None:
    made = polydl.optimize(PROGRAMS[name], run=False, options=OPTIONS, prove=True)
    assert "not proved" not in made.text, re.findall("not proved.*", made.text)
