"""Short innermost loops written out in the body of a vector loop; names that isl keeps for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl import load
from polydl.dependences.analysis import dependences
from polydl.equations.step import applied
from polydl.lower.cexpr import HELPER_TEXT
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.rewrite.materialise import in_place
from polydl.schedule.as_tree import written
from polydl.schedule.direction import moving
from polydl.schedule.innermost_passes import WRITTEN_OUT
from polydl.schedule.ordered import Ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import direct
from polydl.schedule.transforms import Schedule
from polydl.schedule.tree import Run, bands
from polydl.schedule.tree_check import broken
from polydl.search.candidates import candidates, made
from polydl.search.isl_scheduler import SETTINGS, computed
from polydl.target import detect
from tests.compiling import run_compiler, run_program
from tests.schedule.test_schedules import compares, estimates, scop_of


def scop_from(tmp_path: Path, code: str) -> Scop:
    path = tmp_path / "k.c"
    path.write_text(code)
    return load(path).scops[0]


@pytest.mark.parametrize("name", ["fir", "pooling", "depthwise", "convolution_2d"])
def test_written_out_computes_the_same(tmp_path: Path, name: str) -> None:
    scop = scop_of(name)
    scop = applied(scop, in_place(scop, reassociate=True))
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    texts = []
    for sizes in ((), (4, 3, 8)):
        how = Schedule("written", sizes, unroll=True)
        tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=True)
        assert broken(scop, scop.statements, tree, found, reassociate=True) is None
        members = [m for band in bands(tree) for m in band.members]
        assert any(m.unroll for m in members)
        code = generate(scop, program_tree([Ordered.scheduled(scop.statements, how, tree)]))
        texts.append(splice(scop.source, [(scop, code)], ""))
    done = compares(tmp_path, name, texts, ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("terms", "stride", "runs"), [(20, 16, Run.SIMD), (40, 16, Run.SERIAL), (40, 2, Run.SIMD)])
def test_a_compiler_is_not_asked_to_put_many_vectors_together(
    tmp_path: Path, terms: int, stride: int, runs: Run
) -> None:
    value = " + ".join(f"a[{stride} * i + {k}]" for k in range(terms))
    text = f"void f(const float *restrict a, float *restrict c) {{ for (int i = 0; i < 64; i++) c[i] = {value}; }}"
    scop = scop_from(tmp_path, text)
    links = direct(scop, scop.statements, dependences(scop, reads=False))
    how = Schedule("written", (), parallel=False)
    tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=True)
    assert [m.run for band in bands(tree) for m in band.members] == [runs]


def test_a_thousand_statements_are_written_out_at_most(tmp_path: Path) -> None:
    """Short loops around few statements are; the instances of many would be a text that no compiler is quick with."""
    for count, copies in ((4, True), (40, False)):
        lines = " ".join(f"c{k}[t][i][j] = a[i][j] * {k + 1};" for k in range(count))
        arrays = ", ".join(f"float c{k}[restrict 9][64][32]" for k in range(count))
        text = f"void f(const float a[restrict 64][32], {arrays}) {{ "
        text += (
            f"for (int t = 0; t < 9; t++) for (int j = 0; j < 32; j++) for (int i = 0; i < 64; i++) {{ {lines} }} }}"
        )
        scop = scop_from(tmp_path, text)
        links = direct(scop, scop.statements, dependences(scop, reads=False))
        how = Schedule("written", (), parallel=False, unroll=True)
        tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=True)
        assert any(m.unroll for band in bands(tree) for m in band.members) == copies


def test_the_loop_around_them_is_in_vectors(tmp_path: Path) -> None:
    scop = scop_from(
        tmp_path,
        "void f(const float in[restrict 1000], const float t[restrict 8], float out[restrict 900]) {\n#pragma scop\n"
        "for (int i = 0; i < 900; i++) { out[i] = 0; for (int k = 0; k < 8; k++) out[i] += in[i + k] * t[k]; }\n"
        "#pragma endscop\n}\n",
    )
    found = dependences(scop, reads=False)
    tree = made(
        scop, moving(scop, scop.statements), direct(scop, scop.statements, found), written(scop.statements),
        Schedule("written", unroll=True), reassociate=True,
    )  # fmt: skip
    runs = [(m.run, m.unroll) for band in bands(tree) for m in band.members]
    assert runs == [(Run.PARALLEL, False), (Run.SIMD, False), (Run.SERIAL, True)]
    lines = generate(
        scop, program_tree([Ordered.scheduled(scop.statements, Schedule("written", unroll=True), tree)])
    ).region
    assert lines.count("+= in[") == 8


@pytest.mark.parametrize(("taps", "short"), [(WRITTEN_OUT, True), (WRITTEN_OUT + 1, False)])
def test_long_loops_stay(tmp_path: Path, taps: int, short: bool) -> None:
    scop = scop_from(
        tmp_path,
        f"void f(const float in[restrict 1000], const float t[restrict {taps}], float out[restrict 900]) {{\n"
        f"#pragma scop\nfor (int i = 0; i < 900; i++) for (int k = 0; k < {taps}; k++) out[i] += in[i + k] * t[k];\n"
        "#pragma endscop\n}\n",
    )
    links = dependences(scop, reads=False)
    choices, _ = candidates(scop, scop.statements, links, detect(), estimates(scop), reassociate=True)
    found = [part for choice in choices for part in choice.parts if part.loops is None]
    assert found
    assert any(m.unroll for one in found for band in bands(one.tree) for m in band.members) == short


def test_a_loop_that_carries_a_dependence_is_not_run_in_vectors(tmp_path: Path) -> None:
    scop = scop_from(
        tmp_path,
        "void f(float a[restrict 1000]) {\n#pragma scop\n"
        "for (int i = 4; i < 900; i++) for (int k = 0; k < 4; k++) a[i] += a[i - 1 - k];\n#pragma endscop\n}\n",
    )
    links = dependences(scop, reads=False)
    choices, _ = candidates(scop, scop.statements, links, detect(), estimates(scop), reassociate=True)
    found = [part for choice in choices for part in choice.parts if part.loops is None]
    for one in found:
        for band in bands(one.tree):
            assert not any(m.run is Run.SIMD for m in band.members)


def test_words_of_isl_are_names_like_others(tmp_path: Path) -> None:
    """isl's text takes mod, max, floor and exists for its own words; as iterators and parameters they are names."""
    path = tmp_path / "words.c"
    path.write_text(
        "void f(int min, int max, double floor[restrict max][min]) {\n#pragma scop\n"
        "for (int mod = 1; mod < max; mod++) for (int exists = 1; exists < min; exists++)\n"
        "floor[mod][exists] = floor[mod - 1][exists] + floor[mod][exists - 1] * max;\n#pragma endscop\n}\n"
    )
    scop = load(path, sizes={"min": 20, "max": 30}).scops[0]
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found, privatised=False)
    for setting in SETTINGS:
        tree = computed(scop, scop.statements, links, setting)
        assert tree is not None
        assert broken(scop, scop.statements, tree, found, reassociate=True) is None
        code = generate(scop, program_tree([Ordered.scheduled(scop.statements, Schedule(setting.name), tree)]))
        assert "floor[c" in code.region


EXTREMES = """
#include <math.h>
#include <stdio.h>
#include <string.h>
%s
int main(void)
{
    const float values[] = {0.0f, -0.0f, 1.5f, -1.5f, INFINITY, -INFINITY, NAN, 1e-45f, -3e38f};
    int wrong = 0;
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++) {
            float a = values[i], b = values[j];
            float pairs[2][2] = {{fmaxf(a, b), polydl_fmaxf(a, b)}, {fminf(a, b), polydl_fminf(a, b)}};
            double wide[2][2] = {{fmax(a, b), polydl_fmax(a, b)}, {fmin(a, b), polydl_fmin(a, b)}};
            for (int k = 0; k < 2; k++) {
                wrong += !(pairs[k][0] == pairs[k][1] || (isnan(pairs[k][0]) && isnan(pairs[k][1])));
                wrong += !(wide[k][0] == wide[k][1] || (isnan(wide[k][0]) && isnan(wide[k][1])));
            }
        }
    printf("%%d wrong\\n", wrong);
    return wrong != 0;
}
"""


def test_extremes_are_those_of_libm(tmp_path: Path) -> None:
    helpers = [HELPER_TEXT[n].format(type="int", prefix="polydl_") for n in ("fmax", "fmaxf", "fmin", "fminf")]
    source, program = tmp_path / "extremes.c", tmp_path / "extremes"
    source.write_text(EXTREMES % "\n".join(helpers))
    run_compiler(["cc", "-O2", "-Wall", "-Werror", "-o", str(program), str(source), "-lm"])
    done = run_program([str(program)], check=False)
    assert (done.returncode, done.stdout) == (0, "0 wrong\n")
