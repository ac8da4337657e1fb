"""Structures of which a region uses members of several types: an array of each type, in one memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polydl.base.errors import ToolchainError
from polydl.frontend import load
from polydl.lower.emit import Generated
from polydl.lower.splice import splice
from polydl.measure import Status, Toolchain, measure
from polydl.measure.input_data import describe_buffers, integer_inputs, real_inputs
from polydl.measure.unit import original_code, passed_arrays
from polydl.model.touched import asked
from polydl.options import Options
from polydl.pipeline import rank
from polydl.search.proofs import proof_of
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import reads, same_map, scop, write
from tests.measure.builders import QUICK

BODY = "typedef struct { float x, y; char tag; double mass; float pos[3]; int id; } body;\n"


def test_each_type_is_an_array(tmp_path: Path) -> None:
    found = scop(
        tmp_path, BODY + "void f(body p[40]) { for (int i = 1; i < 40; i++) p[i].x = p[i - 1].id * p[i].mass; }"
    )
    (statement,) = found.statements
    assert same_map(write(statement).relation, "{ S0[i] -> p[i, 0] : 0 < i < 40 }")
    (identity,), (mass,) = reads(statement, "p_int"), reads(statement, "p_double")
    assert same_map(identity.relation, "{ S0[i] -> p_int[i - 1, 9] : 0 < i < 40 }")
    assert same_map(mass.relation, "{ S0[i] -> p_double[i, 2] : 0 < i < 40 }")
    assert {found.arrays[name].spelled for name in ("p", "p_int", "p_double")} == {"p"}
    assert [array.name for array in passed_arrays(found)] == ["p"]
    assert not found.assumptions, "one array does not overlap itself"


def test_a_name_that_is_taken_is_not_used_again(tmp_path: Path) -> None:
    found = scop(
        tmp_path, BODY + "void f(body p[9], int *p_int) { for (int i = 0; i < 9; i++) p[i].x = p_int[p[i].id]; }"
    )
    assert {"p", "p_int", "p_int1"} <= set(found.arrays)


def test_of_another_pointer_overlap_is_asked_of_each_type(tmp_path: Path) -> None:
    found = scop(tmp_path, BODY + "void f(body *p, body *q) { for (int i = 0; i < 9; i++) p[i] = q[i]; }")
    (said,) = asked(found)
    assert said.startswith("'p' and 'q' do not overlap (")
    assert ("p_double", "q_double") in found.apart
    assert not any("overlap" in one for one in found.assumptions)


def test_what_is_dead_is_dead_of_each_type(tmp_path: Path) -> None:
    code = "void f(body p[9], float *x) {\n#pragma scop\n#pragma polydl dead(p)\nfor (int i = 0; i < 9; i++) {"
    found = scop(tmp_path, BODY + code + " p[i].x = i; p[i].id = i; x[i] = p[i].x + p[i].id; }\n#pragma endscop\n}")
    assert found.live_out == {"x"}


WHOLE = """\
#include <stdio.h>
struct vector { double x, y; };
struct cell { float value; short level; struct vector flow; int next[2]; signed char kind; };
struct grid { int n; struct cell *cells; };
static struct cell held[23];

void move(struct grid *g, const float *restrict of_kind)
{
    for (int i = 0; i < g->n; i++) {
        struct cell *c = &g->cells[i];
        c->value += of_kind[c->kind] * c->flow.x;
        if (c->level > 2)
            c->flow.y = c->value, c->level = c->level - 1;
        for (int k = 0; k < 2; k++)
            c->next[k] = c->next[k] + c->level;
    }
}

void swap(int n, struct cell *restrict a, const struct cell *restrict b)
{
    for (int i = 0; i < n; i++) {
        struct cell t = b[n - 1 - i];
        t.level = t.level + held[i].level;
        a[i] = t;
        held[i].flow.x += t.value;
    }
}

double follow(int n, const struct cell *p)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += p[p[i].next[1] & 15].value * p[i].flow.x;
    return s;
}

int main(void)
{
    static struct cell a[23], b[23];
    float of_kind[4] = {1, 2, 3, 4};
    for (int i = 0; i < 23; i++) {
        struct cell one = {i, i % 5, {i % 3, i % 7}, {i, 2 * i}, i % 4};
        a[i] = one;
        held[i] = one;
    }
    struct grid g = {23, a};
    move(&g, of_kind);
    g.n = 7;
    move(&g, of_kind);
    swap(23, b, a);
    swap(5, b, a);
    double s = follow(23, b) + 3 * follow(4, a);
    for (int i = 0; i < 23; i++) {
        s += (i + 1) * (a[i].value + a[i].level + a[i].flow.x + a[i].flow.y + a[i].next[0] + a[i].next[1]);
        s += (i + 2) * (b[i].value + b[i].level + b[i].flow.x + b[i].flow.y + b[i].next[0] + b[i].kind);
        s += (i + 3) * (held[i].flow.x + held[i].level);
    }
    printf("%.17g\\n", s);
    return 0;
}
"""


def _printed(text: str, folder: Path) -> str:
    (folder / "run.c").write_text(text)
    flags = ["-std=gnu11", "-O2", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    run_compiler(["cc", *flags, "-o", folder / "run", folder / "run.c", "-lm"])
    return run_program([folder / "run"]).stdout


def test_outputs_compute_the_same(tmp_path: Path) -> None:
    """The files that are written, with several variants, and for sizes that they were not made for."""
    path = tmp_path / "whole.c"
    path.write_text(WHOLE)
    program = load(path, sizes={"n": 23, "g_n": 23})
    rankings = [rank(found, options=Options(space="small", threads=2)) for found in program.scops]
    assert len(rankings) == 3
    expected = _printed(path.read_text(), tmp_path)
    for number in range(3):
        chosen = [list(ranking)[min(number, len(ranking) - 1)] for ranking in rankings]
        pieces = [(found, one.generated) for found, one in zip(program.scops, chosen, strict=True)]
        assert _printed(splice(program.source, pieces, ""), tmp_path) == expected


def test_outputs_are_proved(tmp_path: Path) -> None:
    code = BODY + "void f(body p[40], float w) { for (int i = 0; i < 40; i++) { p[i].x += w * p[i].id; p[i].mass += i;"
    code += " for (int k = 0; k < 3; k++) p[i].pos[k] = p[i].tag; } }"
    found = scop(tmp_path, code)
    options = Options(space="small", threads=2)
    ranking = rank(found, options=options)
    for variant in list(ranking)[:3]:
        proof = proof_of(ranking.program, variant, options)
        assert proof.verdict == "proved", proof.reason


COUNTED = BODY + "void f(body p[40]) { for (int i = 0; i < 40; i++) { p[i].y = 2 * p[i].x; p[i].id += i; } }"


def test_data_are_of_each_members_type(tmp_path: Path) -> None:
    found = scop(tmp_path, COUNTED)
    size = np.dtype({"names": ["x", "id"], "formats": ["f4", "i4"], "offsets": [0, 36], "itemsize": 40})
    (buffer,) = describe_buffers(found, [(4, 0, 0)])
    assert [part.array.name for part in buffer.parts] == ["p", "p_int"] and buffer.written and buffer.live
    for values in (integer_inputs([buffer], 0, 4)[0], real_inputs([buffer], 0, -1.0, 1.0)[0]):
        structures = values.reshape(-1).view(size)
        assert set(structures["id"]) == {1, 2, 3, 4}
        assert np.all(np.abs(structures["x"]) <= 4) and len(set(structures["x"])) > 1
    signed = real_inputs([buffer], 0, -1.0, 1.0)[0]
    assert np.array_equal(
        np.abs(signed.reshape(-1).view(size)["x"]), buffer.absolute(signed).reshape(-1).view(size)["x"]
    )


@pytest.mark.parametrize(
    ("right", "wrong"), [("p[i].id += i", "p[i].id += i + (i == 7)"), ("2 * p[i].x", "3 * p[i].x")]
)
def test_a_wrong_member_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    """An integer that is off by one, taken for a float, would be within any tolerance."""
    found = scop(tmp_path, COUNTED)
    text = original_code(found).region
    codes = {"right": Generated((), text), "wrong": Generated((), text.replace(right, wrong))}
    assert codes["right"] != codes["wrong"]
    first, second = measure(found, codes, Toolchain(), QUICK).measurements
    assert first.status is Status.VERIFIED, first.message
    assert second.status is Status.WRONG, second.message


@pytest.mark.parametrize("attribute", ["", "__attribute__((packed)) "])
def test_packed_structures_are_not_measured(attribute: str, tmp_path: Path) -> None:
    """What is compared would be other bytes than those of the members."""
    code = f"struct {attribute}s {{ char c; float x; int k; }};\n"
    found = scop(tmp_path, code + "void f(struct s p[9]) { for (int i = 0; i < 9; i++) { p[i].k += 1; p[i].x += 1; } }")
    codes = {"same": original_code(found)}
    if attribute:
        with pytest.raises(ToolchainError, match="is it packed"):
            measure(found, codes, Toolchain(), QUICK)
    else:
        (one,) = measure(found, codes, Toolchain(), QUICK).measurements
        assert one.status is Status.VERIFIED
