"""Access relations, array shapes, delinearisation, right-hand sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from polydl.frontend import load
from polydl.model import isl
from polydl.model.expr import AffineValue, Binary, Call, Conditional, Const, Convert, Load
from polydl.model.scop import Assignment, Storage
from polydl.model.touched import apart
from polydl.model.types import F32, F64
from tests.frontend.reading import reads, region, same_map, same_set, scop, write


def extents(found: object) -> list[str]:
    return ["?" if e is None else str(e.max_val()) for e in found.extents]  # type: ignore[attr-defined]


def test_matmul_reads_and_writes(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        void mm(int M, int N, int K, float A[M][K], float B[K][N], float C[M][N]) {
        #pragma scop
          for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) for (int k = 0; k < K; k++)
            C[i][j] = C[i][j] + A[i][k] * B[k][j];
        #pragma endscop
        }""",
    )
    (statement,) = found.statements
    domain = "0 <= i < M and 0 <= j < N and 0 <= k < K"
    assert same_map(reads(statement, "A")[0].relation, f"[M, N, K] -> {{ S0[i, j, k] -> A[i, k] : {domain} }}")
    assert same_map(reads(statement, "B")[0].relation, f"[M, N, K] -> {{ S0[i, j, k] -> B[k, j] : {domain} }}")
    assert same_map(write(statement).relation, f"[M, N, K] -> {{ S0[i, j, k] -> C[i, j] : {domain} }}")
    body = statement.body
    assert isinstance(body, Assignment)
    assert body.op == "+="
    assert statement.accesses[body.target].write
    assert body.target_read is not None
    assert statement.accesses[body.target_read].array == "C"
    assert [a.write for a in statement.accesses] == [False, False, False, True]
    assert found.live_out == {"A", "B", "C"}
    assert not found.assumptions
    assert found.apart == (("C", "A"), ("C", "B"))


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ("AB", "'A' and 'B' do not overlap"),
        ("CA CB", "'C' does not overlap 'A' or 'B'"),
        ("AB AC BC", "'A', 'B' and 'C' do not overlap one another"),
        ("CD CA CB DA DB", "'C' and 'D' do not overlap one another, nor 'A' or 'B'"),
        ("AB CD", "'A' and 'B' do not overlap one another; 'C' and 'D' do not overlap one another"),
        ("AB BC CD", "'B' does not overlap 'A' or 'C'; 'C' and 'D' do not overlap one another"),
    ],
)
def test_arrays_apart_are_said_in_one_line(pairs: str, said: str) -> None:
    assert apart([(pair[0], pair[1]) for pair in pairs.split()]) == said


@pytest.mark.parametrize(
    ("statement", "op", "value"),
    [
        ("x[0] = x[0] + 2.0;", "+=", Const("2.0")),
        ("x[0] = 2.0 + x[0];", "+=", Const("2.0")),
        ("x[0] = x[0] - 2.0;", "-=", Const("2.0")),
        ("x[0] = x[0] * 2.0;", "*=", Const("2.0")),
        ("x[0] = 2.0 * x[0];", "*=", Const("2.0")),
        ("x[0]++;", "+=", Const("1")),
        ("--x[0];", "-=", Const("1")),
        ("x[0] /= 4.0;", "/=", Const("4.0")),
        ("x[0] = 2.0 - x[0];", "=", Binary("-", Const("2.0"), Load(0))),
        ("x[0] = x[0] + y[0] + y[1];", "=", Binary("+", Binary("+", Load(0), Load(1)), Load(2))),
        ("x[0] = x[1] + 2.0;", "=", Binary("+", Load(0), Const("2.0"))),
        ("x[0] = fmax(y[0], 0.0);", "=", Call("fmax", (Load(0), Const("0.0")), F64)),
        ("x[0] = (double)(float)y[1];", "=", Convert(F32, F64, Convert(F64, F32, Load(0)))),
        (
            "x[0] = y[0] > 0.0 ? y[0] : 0.0;",
            "=",
            Conditional(Binary(">", Load(0), Const("0.0")), Load(1), Const("0.0"), typed=(True, True)),
        ),
        ("x[0] = M_PI * 2;", "=", Binary("*", Const("M_PI"), Const("2"))),
    ],
)
def test_right_hand_side(tmp_path: Path, statement: str, op: str, value: object) -> None:
    (found,) = region(tmp_path, statement, "void f(double x[4], double y[4])").statements
    assert isinstance(found.body, Assignment)
    assert (found.body.op, found.body.value) == (op, value)


def test_integer_values_stay_affine(tmp_path: Path) -> None:
    found = region(tmp_path, "for (int i = 0; i < 9; i++) x[i] = (i / 2) * 0.5f + n;", "void f(int n, float x[9])")
    (statement,) = found.statements
    assert isinstance(statement.body, Assignment)
    total = statement.body.value
    # n shapes nothing: it is data, not a parameter
    assert found.parameters == ()
    assert found.arrays["n"].storage is Storage.PARAMETER
    assert found.arrays["n"].is_scalar
    assert isinstance(total, Binary)
    assert isinstance(total.right, Load)
    assert isinstance(total.left, Binary)
    assert isinstance(total.left.left, AffineValue)
    value = total.left.left.value
    assert value.domain().get_tuple_name() == "S0"
    assert found.live_out == {"x"}


def test_reads_of_a_conditional_happen_where_it_holds(tmp_path: Path) -> None:
    found = region(tmp_path, "for (int i = 0; i < 9; i++) x[i] = i > 0 ? x[i - 1] : 0.0f;", "void f(float x[9])")
    (read,) = reads(found.statements[0], "x")
    assert same_map(read.relation, "{ S0[i] -> x[i - 1] : 0 < i < 9 }")


@pytest.mark.parametrize(
    ("head", "subscript", "shape", "relation"),
    [
        ("float *p", "p[i * 20 + j]", ["?", "20"], "{ S0[i, j] -> p[i, j] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float *p", "*(p + i * 20 + j)", ["?", "20"], "{ S0[i, j] -> p[i, j] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float *p", "(p + 20 * i)[j]", ["?", "20"], "{ S0[i, j] -> p[i, j] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float p[200]", "p[i * 20 + j]", ["?", "20"], "{ S0[i, j] -> p[i, j] : 0 <= i < 10 and 0 <= j < 20 }"),
        # the rows overlap: not provable, so it stays linear
        ("float *p", "p[i * 15 + j]", ["?"], "{ S0[i, j] -> p[15i + j] : 0 <= i < 10 and 0 <= j < 20 }"),
        (
            "float *p",
            "p[(9 - i) * 32 + 19 - j]",
            ["?", "32"],
            "{ S0[i, j] -> p[9 - i, 19 - j] : 0 <= i < 10 and 0 <= j < 20 }",
        ),
        ("float *p", "p[i * 64 + j + 40]", ["?", "64"], "{ S0[i, j] -> p[i, j + 40] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float *p", "p[i * 20 + j + 60]", ["?", "20"], "{ S0[i, j] -> p[i + 3, j] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float *p", "p[i + j]", ["?"], "{ S0[i, j] -> p[i + j] : 0 <= i < 10 and 0 <= j < 20 }"),
        ("float *p", "p[j * 2]", ["?", "2"], "{ S0[i, j] -> p[j, 0] : 0 <= i < 10 and 0 <= j < 20 }"),
    ],
)
def test_delinearised_numbers(tmp_path: Path, head: str, subscript: str, shape: list[str], relation: str) -> None:
    found = region(
        tmp_path, f"for (int i = 0; i < 10; i++) for (int j = 0; j < 20; j++) {subscript} = 0.0f;", f"void f({head})"
    )
    array = found.arrays["p"]
    if shape == ["?"] and "[" in head:
        shape = ["200"]
    assert extents(array) == shape
    assert array.linear == (len(shape) > 1)
    assert same_map(write(found.statements[0]).relation, relation)


def test_delinearised_with_symbolic_strides(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        """
        for (int n = 0; n < N; n++) for (int h = 0; h < H; h++) for (int w = 0; w < W; w++) for (int c = 0; c < C; c++)
          y[((n * H + h) * W + w) * C + c] = x[((n * H + h) * W + w) * C + C - 1 - c];
        """,
        "void f(int N, int H, int W, int C, const float *restrict x, float *restrict y)",
    )
    box = "0 <= n < N and 0 <= h < H and 0 <= w < W and 0 <= c < C"
    (statement,) = found.statements
    assert same_map(write(statement).relation, f"[N, H, W, C] -> {{ S0[n, h, w, c] -> y[n, h, w, c] : {box} }}")
    (read,) = reads(statement, "x")
    assert same_map(read.relation, f"[N, H, W, C] -> {{ S0[n, h, w, c] -> x[n, h, w, C - 1 - c] : {box} }}")
    assert found.arrays["y"].linear
    assert len(found.arrays["y"].extents) == 4
    assert found.assumptions == ()


@pytest.mark.parametrize("half", ["(D / 2)", "(D >> 1)", "half"])
def test_sizes_may_be_quotients_of_parameters(tmp_path: Path, half: str) -> None:
    """As the tables of rotary embeddings have them: a row of D / 2."""
    found = region(
        tmp_path,
        f"""
        const int half = D / 2;
        for (int t = 0; t < T; t++) for (int h = 0; h < H; h++) for (int d = 0; d < {half}; d++)
          y[(t * H + h) * D + d] = x[(t * H + h) * D + {half} + d]
            * c[t * {half} + d] + z[(h * T + t) * 2 * {half} + d];
        """,
        "void f(int T, int H, int D, const float *restrict x, const float *restrict c, const float *restrict z, "
        "float *restrict y)",
    )
    box = "0 <= t < T and 0 <= h < H and 0 <= d and 2d + 2 <= D"
    (statement,) = found.statements
    for array, subscripts in (("c", "t, d"), ("x", "t, h, floor(D/2) + d"), ("z", "h, t, d")):
        (read,) = reads(statement, array)
        wanted = f"[T, H, D] -> {{ S0[t, h, d] -> {array}[{subscripts}] : {box} }}"
        assert found.arrays[array].linear and isl.range_arity(read.relation) == len(subscripts.split(","))
        assert same_map(read.relation, wanted)


def test_rows_of_a_sum_of_parameters(tmp_path: Path) -> None:
    """As tables of dynamic programming have them, with a row and a column before the first."""
    found = region(
        tmp_path,
        """
        for (int i = 0; i <= n; i++) for (int j = 0; j <= m; j++) d[i * (m + 1) + j] = 0.0f;
        for (int i = 1; i <= n; i++) for (int j = 1; j <= m; j++)
          d[i * (m + 1) + j] = d[(i - 1) * (m + 1) + j - 1] + d[(i - 1) * (m + 1) + j] + d[i * (m + 1) + j - 1];
        """,
        "void f(int n, int m, float *d)",
    )
    assert found.arrays["d"].linear and found.context.params().is_equal(isl.Set("[n, m] -> { : }").params())
    step = found.statements[1]
    box = "1 <= i <= n and 1 <= j <= m"
    assert same_map(write(step).relation, f"[n, m] -> {{ S1[i, j] -> d[i, j] : {box} }}")
    for read, at in zip(reads(step, "d"), ("i - 1, j - 1", "i - 1, j", "i, j - 1"), strict=True):
        assert same_map(read.relation, f"[n, m] -> {{ S1[i, j] -> d[{at}] : {box} }}")


def test_an_element_among_rows_of_a_sum_of_parameters(tmp_path: Path) -> None:
    """It lies in a row where rows have one: nothing else is asked of the sizes, whatever multiples subscripts have."""
    path = tmp_path / "s.c"
    path.write_text("""void f(int n, int m, float *d)
{
#pragma scop
    for (int i = 0; i <= n; i++) for (int j = 0; j <= m; j++) d[i * (m + 1) + j] = 1.0f;
    d[0] = 0.0f;
    for (int i = 1; i <= n; i++) for (int j = 1; j <= m; j++) d[i * (m + 1) + j] = d[(i - 1) * (m + 1) + j - 1];
#pragma endscop
}
""")
    (found,) = load(path, require_sizes=False, rows_fit=True).scops
    assert found.arrays["d"].linear and found.context.params().is_equal(isl.Set("[n, m] -> { : m >= 0 }").params())
    assert same_map(write(found.statements[1]).relation, "[n, m] -> { S1[] -> d[0, 0] }")
    (read,) = reads(found.statements[2], "d")
    assert same_map(read.relation, "[n, m] -> { S2[i, j] -> d[i - 1, j - 1] : 1 <= i <= n and 1 <= j <= m }")


def test_all_accesses_of_an_array_share_one_shape(tmp_path: Path) -> None:
    # the second loop walks over rows as one line, and leaves the last one in the middle: no shape holds for both
    found = region(
        tmp_path,
        """
        for (int i = 0; i < 10; i++) for (int j = 0; j < 20; j++) p[i * 20 + j] = 0.0f;
        for (int l = 0; l < 190; l++) p[l] += 1.0f;
        """,
        "void f(float *p)",
    )
    assert not found.arrays["p"].linear
    assert same_map(write(found.statements[0]).relation, "{ S0[i, j] -> p[20i + j] : 0 <= i < 10 and 0 <= j < 20 }")


def test_a_line_over_whole_rows_has_their_shape(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        """
        for (int l = 0; l < 240; l++) p[l] = 0.0f;
        for (int i = 0; i < 3; i++) for (int j = 0; j < 4; j++) for (int k = 0; k < 20; k++)
          p[(i * 4 + j) * 20 + k] += 1.0f;
        """,
        "void f(float *p)",
    )
    assert found.arrays["p"].linear and extents(found.arrays["p"]) == ["?", "4", "20"]
    line = "{ S0[l] -> p[floor(l/80), floor((l mod 80)/20), l mod 20] : 0 <= l < 240 }"
    assert same_map(write(found.statements[0]).relation, line)


@pytest.mark.parametrize(
    ("declaration", "storage", "shape", "ctype"),
    [
        ("static float g[4][5]; void f(void)", Storage.GLOBAL, ["4", "5"], "float"),
        ("typedef double real; typedef real row[5]; void f(row g[static 4])", Storage.PARAMETER, ["4", "5"], "double"),
        ("void f(float (*restrict g)[5])", Storage.PARAMETER, ["?", "5"], "float"),
        ("void f(unsigned char g[][5])", Storage.PARAMETER, ["?", "5"], "unsigned char"),
        ("void f(float g[const restrict static 4][5])", Storage.PARAMETER, ["4", "5"], "float"),
        ("#include <stdint.h>\nvoid f(int16_t g[4][5])", Storage.PARAMETER, ["4", "5"], "short"),
    ],
)
def test_declarations(tmp_path: Path, declaration: str, storage: Storage, shape: list[str], ctype: str) -> None:
    found = region(tmp_path, "for (int i = 0; i < 4; i++) for (int j = 0; j < 5; j++) g[i][j] = 1;", declaration)
    array = found.arrays["g"]
    assert (array.storage, extents(array), array.element.c) == (storage, shape, ctype)
    assert same_map(write(found.statements[0]).relation, "{ S0[i, j] -> g[i, j] : 0 <= i < 4 and 0 <= j < 5 }")


def test_scalars_are_arrays_without_dimensions(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        float f(int n, float alpha, const float x[n]) {
          float sum = 0.0f;
        #pragma scop
          float t;
          for (int i = 0; i < n; i++) { t = alpha * x[i]; sum += t; }
        #pragma endscop
          return sum;
        }""",
    )
    assert {name: array.storage for name, array in found.arrays.items()} == {
        "alpha": Storage.PARAMETER,
        "x": Storage.PARAMETER,
        "t": Storage.REGION,
        "sum": Storage.LOCAL,
    }
    assert found.arrays["t"].declaration == "float t"
    assert found.live_out == {"x", "sum"}
    assert same_map(write(found.statements[1]).relation, "[n] -> { S1[i] -> sum[] : 0 <= i < n }")


def test_integer_scalars_that_are_data(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        int f(int n, const int x[n]) {
          int count = 0;
        #pragma scop
          for (int i = 0; i < n; i++) count = count + x[i];
        #pragma endscop
          return count;
        }""",
    )
    (statement,) = found.statements
    assert isinstance(statement.body, Assignment)
    assert statement.body.op == "+="
    assert write(statement).array == "count"
    assert found.live_out == {"count", "x"}


def test_a_temporary_that_is_read_afterwards_is_data(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        int f(float x[8]) {
          int last = 0;
        #pragma scop
          for (int i = 0; i < 8; i++) { x[i] = 0.0f; last = i; }
        #pragma endscop
          return last;
        }""",
    )
    assert write(found.statements[1]).array == "last"
    assert "last" in found.live_out


def test_live_out_and_dead(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 4; i++) { t[i] = 1.0f; x[i] = t[i]; }"
    head = "void f(float t[restrict 4], float x[restrict 4])"
    assert region(tmp_path, f"#pragma polydl dead(t)\n{body}", head).live_out == {"x"}
    assert region(tmp_path, f"#pragma polydl live_out(x)\n{body}", head).live_out == {"x"}
    assert region(tmp_path, body, head).live_out == {"t", "x"}


def test_restrict_on_one_of_two_pointers_excludes_overlap(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 4; i++) y[i] = x[i];"
    assert region(tmp_path, body, "void f(const float *x, float *restrict y)").apart == ()
    assert region(tmp_path, body, "void f(const double *x, float *y)").apart == ()
    assert region(tmp_path, body, "void f(const float *x, float *y)").apart == (("y", "x"),)


@pytest.mark.parametrize(
    ("before", "body", "apart"),
    [
        ("float *t = alloc(9);", "t[i] = x[i];", (("t", "x"),)),
        ("float *restrict t = alloc(9);", "t[i] = x[i];", ()),
        ("float *t = y + 2;", "t[i] = x[i];", ()),
        ("float *t = x ? alloc(9) : y;", "x[i] = t[i];", (("t", "x"),)),
    ],
)
def test_restrict_excludes_no_pointer_that_the_function_makes_of_it(
    tmp_path: Path, before: str, body: str, apart: tuple[tuple[str, str], ...]
) -> None:
    head = "float *alloc(int n);\nvoid f(float *restrict x, float *restrict y)"
    loop = f"for (int i = 0; i < 4; i++) {body}"
    text = f"{head} {{\n{before}\n#pragma scop\n{loop}\n#pragma endscop\n}}\n"
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    (found,) = load(path).scops
    assert {frozenset(pair) for pair in found.apart} == {frozenset(pair) for pair in apart}


def test_exact_sizes(tmp_path: Path) -> None:
    head = "void f(int N, int M, float A[N][M])"
    body = "for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) A[i][j] = 0.0f;"
    found = region(tmp_path, body, head, sizes={"N": 3, "M": 4}, require_sizes=True)
    assert found.parameters == ()
    assert extents(found.arrays["A"]) == ["3", "4"]
    assert found.sizes == {"N": 3, "M": 4}
    assert [(g.name, g.value, g.macro) for g in found.guards] == [("M", 4, False), ("N", 3, False)]
    assert same_set(found.statements[0].domain, "{ S0[i, j] : 0 <= i < 3 and 0 <= j < 4 }")


def test_a_chain_of_assignments_stores_a_number_itself(tmp_path: Path) -> None:
    head = "void f(int n[8], float x[8], float y[8])"
    found = region(tmp_path, "for (int i = 0; i < 8; i++) x[i] = y[i] = 0.0f;", head)
    assert [len(s.accesses) for s in found.statements] == [1, 1]
    found = region(tmp_path, "for (int i = 0; i < 8; i++) x[i] = n[i] = 0.5f;", head)
    assert [[a.array for a in s.accesses] for s in found.statements] == [["n"], ["n", "x"]]


@pytest.mark.parametrize(
    ("body", "domain"),
    [
        ("n = n - 1; for (int i = 0; i < n; i++) x[i] = 1;", "[n] -> { S0[i] : 0 <= i < n - 1 }"),
        ("if (n > 9) n = 9; for (int i = 0; i < n; i++) x[i] = 1;", "[n] -> { S0[i] : 0 <= i < n and i < 9 }"),
        ("if (n > 9) n -= 9; for (int i = 0; i < n; i++) x[i] = 1;",
         "[n] -> { S0[i] : i >= 0 and ((n <= 9 and i < n) or (n > 9 and i < n - 9)) }"),
        ("n++; for (int i = 0; i < 3; i++) { int m = n; for (int j = 0; j < m; j++) x[j] = 1; }",
         "[n] -> { S0[i, j] : 0 <= i < 3 and 0 <= j <= n }"),
        ("for (int k = 0; k < 3; k++) { for (int i = 0; i < n; i++) x[i] = 1; n--; }",
         "[n] -> { S0[k, i] : 0 <= k < 3 and 0 <= i < n - k }"),
    ],
)  # fmt: skip
def test_a_parameter_that_changes(tmp_path: Path, body: str, domain: str) -> None:
    found = region(tmp_path, body, "void f(int n, float *x)")
    (statement,) = found.statements
    assert same_set(statement.domain, domain)
    assert "n" not in "".join(found.region.declared_outside).replace("int", "")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for (int k = 0; k < 3; k++) { for (int i = 0; i < n; i++) x[i] = 1; n -= k; }", "is not affine"),
        ("if (x[0] > 0) n = 9; for (int i = 0; i < n; i++) x[i] = 1;", "depends on data"),
    ],
)
def test_a_parameter_that_changes_with_data_is_no_bound(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InputErrors, match=message):
        region(tmp_path, body, "void f(int n, float *x)")


def test_parameters_that_are_read_behind_the_region(tmp_path: Path) -> None:
    code = "float f(int n, float a, float *x)\n{\n#pragma scop\n@\n#pragma endscop\n    return $;\n}\n"
    body = "for (int i = 0; i < 9; i++) { a = x[i]; x[i] = a * a; }"
    assert "a" in scop(tmp_path, code.replace("@", body).replace("$", "a")).live_out
    assert "a" not in scop(tmp_path, code.replace("@", body).replace("$", "1")).live_out
    with pytest.raises(InputErrors, match="the function parameter 'n' is written in the scop and read behind it"):
        scop(tmp_path, code.replace("@", f"n--; {body}").replace("$", "n"))
