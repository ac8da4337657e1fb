"""Members of structures: which elements they are, what the output reads them through, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputError, InputErrors
from polydl.frontend import load
from polydl.lower.splice import splice
from polydl.model.touched import asked as asked_of
from polydl.options import Options
from polydl.pipeline import rank
from polydl.search.proofs import proof_of
from tests.compiling import run_compiler, run_program
from tests.frontend.reading import reads, same_map, scop, write

BODY = "typedef struct { float x, y; char tag; double mass; float pos[3]; int id; } body;\n"
MATRIX = "struct matrix { int rows, cols; float *data; };\n"


def test_members_of_one_array_are_elements_that_differ(tmp_path: Path) -> None:
    found = scop(
        tmp_path, BODY + "void f(body p[40]) { for (int i = 1; i < 40; i++) p[i].y = p[i - 1].x + p[i].pos[2]; }"
    )
    (statement,) = found.statements
    assert same_map(write(statement).relation, "{ S0[i] -> p[i, 1] : 0 < i < 40 }")
    first, second = reads(statement, "p")
    assert same_map(first.relation, "{ S0[i] -> p[i - 1, 0] : 0 < i < 40 }")
    assert same_map(second.relation, "{ S0[i] -> p[i, 8] : 0 < i < 40 }")


def test_members_lie_where_the_compiler_puts_them(tmp_path: Path) -> None:
    declared = (
        "struct in { char c; double d; };\n"
        "union both { int i; double d; };\n"
        "struct all { char a; struct in b; short s[3]; union both u; struct { float x, y; }; float m[2][3]; int *p;"
        " long double l; float z; char end; };\n"
    )
    code = declared + "void f(struct all p[9]) { for (int i = 0; i < 9; i++) p[i].z = p[i].x + p[i].m[1][2] + p[i].y; }"
    members = scop(tmp_path, code).arrays["p"].members
    assert members is not None
    shown = {at: path for at, path in enumerate(members.paths) if path}
    asked = "".join(
        f'printf("%zu ", __builtin_offsetof(struct all, {path[1:]}) / sizeof(float));' for path in shown.values()
    )
    program = f'#include <stdio.h>\n{declared}int main(void) {{ {asked} printf("%zu", sizeof(struct all)); return 0; }}'
    (tmp_path / "asked.c").write_text(program)
    run_compiler(["cc", "-o", tmp_path / "asked", tmp_path / "asked.c"])
    said = run_program([tmp_path / "asked"]).stdout.split()
    assert [int(word) for word in said] == [*shown, members.bytes]
    assert set(shown.values()) == {".x", ".y", ".z", *(f".m[{i}][{j}]" for i in range(2) for j in range(3))}


def test_members_behind_a_pointer_are_read_before_the_region(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        MATRIX + "void f(struct matrix *m, struct matrix *a) { for (int i = 0; i < m->rows; i++)"
        " for (int j = 0; j < m->cols; j++) m->data[i * m->cols + j] = a->data[i]; }",
    )
    assert found.parameters == ("m_rows", "m_cols")
    assert found.arrays["m_data"].linear and len(found.arrays["m_data"].extents) == 2
    assert found.views["m_rows"].declaration == "const int m_rows"
    assert found.views["m_data"].value == "m->data", "the outermost bound follows m whatever the sizes are"
    assert found.views["a_data"].value == "a ? a->data : 0", "what no iteration follows may be null"


def test_a_name_that_is_taken_is_not_used_again(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        MATRIX + "void f(struct matrix m, float m_data[9]) { for (int i = 0; i < 9; i++) m_data[i] = m.data[i]; }",
    )
    assert set(found.views) == {"m_data1"}


def test_a_first_element_is_that_of_the_array(tmp_path: Path) -> None:
    found = scop(
        tmp_path, BODY + "void f(body *p) { for (int i = 0; i < 9; i++) p->x += (*p).y * (&p[i])->x + (p + i)->y; }"
    )
    (statement,) = found.statements
    assert same_map(write(statement).relation, "{ S0[i] -> p[0, 0] : 0 <= i < 9 }")
    assert not found.views and len(reads(statement, "p")) == 4


def test_a_first_element_of_an_array_that_is_named_alone(tmp_path: Path) -> None:
    found = scop(tmp_path, BODY + "void f(body p[9], float *x) { for (int i = 0; i < 9; i++) x[i] = p->y; }")
    assert not found.views and found.arrays["p"].members is not None


def test_what_a_constant_structure_points_to_may_be_written(tmp_path: Path) -> None:
    found = scop(tmp_path, MATRIX + "void f(const struct matrix *m) { for (int i = 0; i < 9; i++) m->data[i] = 1; }")
    assert found.views["m_data"].declaration == "float *m_data"


def test_a_bound_that_may_not_be_evaluated_follows_no_pointer_surely(tmp_path: Path) -> None:
    code = MATRIX + "void f(int n, struct matrix *m, float *restrict x)"
    found = scop(tmp_path, code + " { for (int i = 0; i < n && i < m->rows; i++) x[i] = 1; }")
    assert found.views["m_rows"].value == "m ? m->rows : 0"


def test_a_pointer_to_an_element(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        BODY + "struct all { body *bodies; };\n"
        "void f(struct all *s) { for (int i = 0; i < 9; i++) { body *b = &s->bodies[i]; b->x = 2 * b->pos[1]; } }",
    )
    (statement,) = found.statements
    assert same_map(write(statement).relation, "{ S0[i] -> s_bodies[i, 0] : 0 <= i < 9 }")


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        ("struct matrix *m, float *x", "x[i] = m->data[i]", {"asked: 'x' and 'm->data' do not overlap"}),
        ("struct matrix *m, float *restrict x", "x[i] = m->data[i]", set()),
        (
            "struct matrix *m, int *x",
            "x[i] = m->rows",
            {"assumed: 'x' and 'm->rows' do not overlap (neither is restrict)"},
        ),
        ("struct matrix *m, float *x", "x[i] = m->rows", set()),
        (
            "struct matrix *m, char *x",
            "x[i] = m->data[i]",
            {
                "asked: 'x' and 'm->data' do not overlap",  # what the pointer points to
                "assumed: 'x' and 'm->data' do not overlap (neither is restrict)",  # the pointer itself
            },
        ),
        ("struct sum *a, struct sum *b", "a->s += b->v[i]", {"asked: 'a->s' and 'b->v' do not overlap"}),
        ("struct sum *a, struct sum *b", "a->s += a->v[i] * a->w", set()),
        ("struct sum *a", "a->s += held.v[i]", {"asked: 'a->s' and 'held.v' do not overlap"}),
        ("struct sum *a", "other->s += held.v[i]", {"asked: 'other->s' and 'held.v' do not overlap"}),
        ("struct sum *a", "held.s += held.v[i]", set()),
        ("double *x, struct sum a", "x[i] = a.s", set()),
    ],
)  # fmt: skip
def test_what_may_overlap_is_said(tmp_path: Path, head: str, body: str, said: set[str]) -> None:
    structs = MATRIX + "struct sum { double s, w; double v[9]; };\nstruct sum held, *other;\n"
    found = scop(tmp_path, f"{structs}void f({head}) {{ for (int i = 0; i < 9; i++) {body}; }}")
    asked = {f"asked: {one.partition(' (')[0]}" for one in asked_of(found)}
    assert asked | {f"assumed: {one}" for one in found.assumptions} == said


def test_structures_of_the_region_are_variables(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "struct v { float x, y; };\nvoid f(struct v p[9], struct v q[9]) { for (int i = 0; i < 9; i++) {"
        " struct v t = {1}, u = { .y = 2 }; t.x += u.y; q[i] = t; u = p[i]; q[i].y = u.x; } }",
    )
    assert {"t_x", "t_y", "u_x", "u_y"} <= set(found.arrays)
    assert [str(a.array) for s in found.statements for a in s.accesses if a.write] == [
        *("t_x", "t_y", "u_x", "u_y", "t_x"), *("q", "q", "u_x", "u_y", "q")
    ]  # fmt: skip
    assert not found.views


REFUSED = {
    "where the members of 'p' lie is not known: it has bit-fields": "struct bits *p ! p[i].x = 0",
    "follows a pointer that is a member of an array's elements": "struct matrix *p ! p[i].data[0] = 0",
    "what '.w.f' is a member of is a union": "struct tagged *p ! p[i].w.f = 0",
    "'p' is no structure whose members are declared here": "struct unknown *p ! x[i] = p->y",
    "'p' has no member 'nope'": "body *p ! x[i] = p->nope",
    "the pointer 'p->data' is written": "struct matrix *p ! p->data = p->data + 1",
    "a structure of 'p' is used as a whole": "struct vector *p ! { p[i].x = 0; x[i] = p[i]; }",
    "elements of type 'struct matrix' are not supported": "struct matrix *p ! p[i] = p[0]",
    "this is no member of a variable": "struct vector *p ! p[i] = i > 3 ? p[0] : p[1]",
    "'p.pos' lies in a structure that is neither global nor behind a pointer": "body p ! x[i] = p.pos[1]",
    "the structure 't' is declared in the scop": "body p ! { struct matrix t; t.rows = i; x[i] = t.rows + p.x; }",
    "'p' is no array of structures": "body **p ! p[i]->x = 0",
    "'p->data' is volatile": "volatile struct matrix *p ! x[i] = p->data[i]",
    "'fixed' is a constant of the file": "body *p ! x[i] = fixed.x",
    "'p->n' is a bit-field": "struct bits *p ! x[i] = p->n",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(tmp_path: Path, message: str) -> None:
    structs = BODY + MATRIX + "struct bits { float x; int n : 3; };\nunion word { int i; float f; };\n"
    structs += "struct vector { float x, y; }; const struct vector fixed = {1, 2};"
    structs += "struct tagged { union word w; int kind; };\nstruct unknown;\n"
    parameter, body = REFUSED[message].split(" ! ")
    (tmp_path / "f.c").write_text(
        f"{structs}void f({parameter}, float *x) {{\n for (int i = 0; i < 9; i++) {body};\n}}\n"
    )
    with pytest.raises(InputErrors) as caught:
        load(tmp_path / "f.c", require_sizes=False)
    assert any(message in error.reason for error in caught.value.errors)
    assert all(error.hint and error.span is not None and error.span.line == 8 for error in caught.value.errors)


WHOLE = """\
#include <stdio.h>
struct vector { double x, y, z; };
struct body { struct vector at, speed; double mass; double pull[3]; };
struct system { int n; double step; struct body *bodies; double energy; };
struct table { int n; float u[20][20], v[20][20]; };
struct matrix { int rows, cols; float *data; };
static struct table other;

void move(struct system *s)
{
    for (int i = 0; i < s->n; i++) {
        struct body *b = &s->bodies[i];
        b->at.x += s->step * b->speed.x;
        for (int k = 0; k < 3; k++)
            b->pull[k] = k * b->mass;
        s->energy += b->mass * b->speed.x * b->speed.x;
        if (b[0].at.x > 30) s->bodies[i].at.y = 1;
    }
}

void relax(struct table *t, float w)
{
    for (int i = 1; i < t->n - 1; i++)
        for (int j = 1; j < 19; j++) {
            t->v[i][j] = w * (t->u[i - 1][j] + t->u[i + 1][j]);
            other.u[i][j] += t->v[i][j];
        }
}

void pull(int n, const struct vector *p, struct vector *f)
{
    for (int i = 0; i < n; i++) {
        struct vector sum = {.y = 1};
        for (int j = 0; j < n; j++) {
            struct vector d = p[j];
            d.x -= p[i].x;
            if (d.x > 3) d.y = 0;
            sum.x += d.x * d.y;
            sum.z += d.z;
        }
        f[i] = sum;
    }
}

void product(const struct matrix *a, struct matrix b, struct matrix *c)
{
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->cols; j++)
            for (int k = 0; k < a->cols; k++)
                c->data[i * c->cols + j] += a->data[i * a->cols + k] * b.data[k * b.cols + j];
}

int main(void)
{
    struct body bodies[37];
    float a[20 * 20], b[20 * 20], c[20 * 20];
    struct table t = {.n = 20};
    for (int i = 0; i < 37; i++) {
        struct body one = {{i, 1, 2}, {3, i, 5}, i, {0}};
        bodies[i] = one;
    }
    for (int i = 0; i < 400; i++) {
        a[i] = i % 7, b[i] = i % 5, c[i] = i;
        t.u[i / 20][i % 20] = i % 9;
    }
    struct system s = {37, 0.5, bodies, 0};
    struct matrix ma = {20, 20, a}, mb = {20, 20, b}, mc = {20, 20, c};
    struct vector points[37], forces[37];
    for (int i = 0; i < 37; i++) points[i].x = i % 5, points[i].y = i % 3, points[i].z = i;
    pull(37, points, forces);
    pull(5, points, forces);
    move(&s);
    relax(&t, 0.5f);
    product(&ma, mb, &mc);
    s.n = 3, mc.rows = 5;
    move(&s);
    product(&ma, mb, &mc);
    struct matrix none = {0, 0, 0};
    product(0, none, &none);
    double sum = s.energy;
    for (int i = 0; i < 37; i++)
        sum += (i + 1) * (bodies[i].at.x + bodies[i].at.y + bodies[i].pull[2] + bodies[i].mass);
    for (int i = 0; i < 37; i++)
        sum += (i + 1) * (forces[i].x + forces[i].y + forces[i].z);
    for (int i = 0; i < 400; i++)
        sum += (i + 1) * (c[i] + t.v[i / 20][i % 20] + other.u[i / 20][i % 20]);
    printf("%.17g\\n", sum);
    return 0;
}
"""


def test_outputs_compute_the_same(tmp_path: Path) -> None:
    """The files that are written, with several variants, and for sizes that they were not made for."""
    path = tmp_path / "whole.c"
    path.write_text(WHOLE.replace("if (b[0].at.x", "if (s->bodies[i].at.x"))
    sizes = {"n": 37, "s_n": 37, "t_n": 20, "a_cols": 20, "b_cols": 20, "c_rows": 20, "c_cols": 20}
    program = load(path, sizes=sizes)
    options = Options(space="small", threads=2)
    rankings = [rank(found, options=options) for found in program.scops]
    expected = _printed(path.read_text(), tmp_path)
    for number in range(3):
        chosen = [list(ranking)[min(number, len(ranking) - 1)] for ranking in rankings]
        pieces = [(found, one.generated) for found, one in zip(program.scops, chosen, strict=True)]
        assert _printed(splice(program.source, pieces, ""), tmp_path) == expected


def _printed(text: str, folder: Path) -> str:
    (folder / "run.c").write_text(text)
    flags = ["-std=gnu11", "-O2", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    run_compiler(["cc", *flags, "-o", folder / "run", folder / "run.c", "-lm"])
    return run_program([folder / "run"]).stdout


def test_outputs_are_proved(tmp_path: Path) -> None:
    code = BODY + "void f(body p[40], float w) { for (int i = 0; i < 40; i++) { p[i].x += w * p[i].y;"
    code += " for (int k = 0; k < 3; k++) p[i].pos[k] = p[i].x; } }"
    found = scop(tmp_path, code)
    options = Options(space="small", threads=2)
    ranking = rank(found, options=options)
    for variant in list(ranking)[:3]:
        proof = proof_of(ranking.program, variant, options)
        assert proof.verdict == "proved", proof.reason


def test_a_pointer_to_an_element_is_subscripted(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "typedef struct { short scale; unsigned char v[4]; } block;\n"
        "void f(const block w[restrict 48], float y[restrict 8]) {\n"
        "for (int r = 0; r < 8; r++) { const block *row = w + r * 6;\n"
        "for (int b = 1; b < 6; b++) for (int j = 0; j < 4; j++) y[r] += row[b].v[j] * row[b - 1].scale; } }",
    )
    (statement,) = found.statements
    (value,), (scale,) = reads(statement, "w"), reads(statement, "w_short")
    domain = "0 <= r < 8 and 0 < b < 6 and 0 <= j < 4"
    assert same_map(value.relation, f"{{ S0[r, b, j] -> w[6r + b, 2 + j] : {domain} }}")
    assert same_map(scale.relation, f"{{ S0[r, b, j] -> w_short[6r + b - 1, 0] : {domain} }}")


def test_a_pointer_to_rows(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "void f(const float w[restrict 48][3], float y[restrict 8]) {\n"
        "for (int r = 0; r < 8; r++) { const float (*rows)[3] = &w[r * 6];\n"
        "for (int b = 0; b < 6; b++) y[r] += rows[b][1]; } }",
    )
    (read,) = reads(found.statements[0], "w")
    assert same_map(read.relation, "{ S0[r, b] -> w[6r + b, 1] : 0 <= r < 8 and 0 <= b < 6 }")


def test_a_pointer_to_rows_of_another_length_is_refused(tmp_path: Path) -> None:
    text = (
        "void f(const float w[restrict 48][3], float y[restrict 8]) {\n#pragma scop\n"
        "for (int r = 0; r < 8; r++) { const float (*rows)[4] = (const float (*)[4])&w[r * 6]; y[r] += rows[1][3]; }\n"
        "#pragma endscop\n}"
    )
    with pytest.raises(InputError, match="'rows'"):
        scop(tmp_path, text)
    with pytest.raises(InputError, match="'rows' points to"):
        scop(tmp_path, text.replace("(const float (*)[4])", ""))
