"""Iteration domains: loops, conditions, C's integer arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.base.errors import InputErrors
from tests.frontend.reading import region, same_map, same_set, scop, write

HEAD = "void f(int N, int M, double A[1000], double B[1000])"


@pytest.mark.parametrize(
    ("loop", "domain", "descending"),
    [
        ("for (int i = 0; i < N; i++)", "[N] -> { S0[i] : 0 <= i < N }", False),
        ("for (int i = 0; i < N; ++i)", "[N] -> { S0[i] : 0 <= i < N }", False),
        ("for (int i = 2; i <= N; i += 1)", "[N] -> { S0[i] : 2 <= i <= N }", False),
        ("for (int i = 0; i < N; i = i + 3)", "[N] -> { S0[i] : 0 <= i < N and i mod 3 = 0 }", False),
        ("for (int i = 1; i < N; i = 4 + i)", "[N] -> { S0[i] : 1 <= i < N and (i - 1) mod 4 = 0 }", False),
        ("for (int i = N - 1; i >= 0; i--)", "[N] -> { S0[i] : 0 <= i < N }", True),
        ("for (int i = N; i > 2; i -= 2)", "[N] -> { S0[i] : 2 < i <= N and (N - i) mod 2 = 0 }", True),
        ("for (int i = 9; i >= 0; i = i - 3)", "{ S0[i] : 0 <= i <= 9 and i mod 3 = 0 }", True),
        ("for (int i = 0; 10 > i; i++)", "{ S0[i] : 0 <= i < 10 }", False),
        ("for (int i = 0; i != 10; i++)", "{ S0[i] : 0 <= i < 10 }", False),
        ("for (int i = 0; i != 12; i += 3)", "{ S0[i] : 0 <= i < 12 and i mod 3 = 0 }", False),
        ("for (int i = 8; i != 0; i -= 2)", "{ S0[i] : 0 < i <= 8 and i mod 2 = 0 }", True),
        ("for (int i = 0; i < N && i < M; i++)", "[N, M] -> { S0[i] : 0 <= i < N and i < M }", False),
        ("for (int i = 0; i < 10 && i != 5; i++)", "{ S0[i] : 0 <= i < 5 }", False),
        ("for (int i = 0; 2 * i + 1 < N; i++)", "[N] -> { S0[i] : 0 <= i and 2i + 1 < N }", False),
        ("for (int i = 0; i < (N < M ? N : M); i++)", "[N, M] -> { S0[i] : 0 <= i < N and i < M }", False),
        ("for (int i = N > M ? N : M; i < 100; i++)", "[N, M] -> { S0[i] : N <= i and M <= i < 100 }", False),
        ("for (int i = 0; i < N / 2; i++)", "[N] -> { S0[i] : 0 <= i and 2i + 2 <= N }", False),
        (
            "for (int i = 0; i < N % 4; i++)",
            "[N] -> { S0[i] : exists e : 0 <= i and N >= 0 and i < N - 4e and 0 <= N - 4e < 4 }",
            False,
        ),
        ("for (int i = 5; i < 5; i++)", "{ S0[i] : 1 = 0 }", False),
        ("for (int i = -3 / 2; i < 3; i++)", "{ S0[i] : -1 <= i < 3 }", False),
        ("for (int i = -7 % 4; i < 3; i++)", "{ S0[i] : -3 <= i < 3 }", False),
        ("for (int i = 0; i < (1 << 4) - 2; i++)", "{ S0[i] : 0 <= i < 14 }", False),
        ("for (int i = 0; i < 0x10; i++)", "{ S0[i] : 0 <= i < 16 }", False),
        ("for (int i = 0; i < 010; i++)", "{ S0[i] : 0 <= i < 8 }", False),
        ("for (long i = 0; i < N; i++)", "[N] -> { S0[i] : 0 <= i < N }", False),
        ("for (unsigned i = 0; i < 10u; i++)", "{ S0[i] : 0 <= i < 10 }", False),
        ("for (unsigned i = 10; i > 0; i--)", "{ S0[i] : 0 < i <= 10 }", True),
        ("for (int i = 0; i < (int)sizeof(double); i++)", "{ S0[i] : 0 <= i < 8 }", False),
    ],
)
def test_loop(tmp_path: Path, loop: str, domain: str, descending: bool) -> None:
    (statement,) = region(tmp_path, f"{loop} A[0] = 1.0;", HEAD).statements
    assert same_set(statement.domain, domain)
    assert statement.descending == (frozenset({"i"}) if descending else frozenset())


@pytest.mark.parametrize(
    ("first", "then", "domain"),
    [
        ("for (i = 0; i < 10; i += 4)", "for (; i < 20; i++)", "{ S1[i] : 12 <= i < 20 }"),
        ("for (i = 0; i + 3 < 10; i += 4)", "for (; i < 10; i++)", "{ S1[i] : 8 <= i < 10 }"),
        ("for (i = 0; i < 3 && i != 2; i++)", "for (; i < 10; i++)", "{ S1[i] : 2 <= i < 10 }"),
        ("for (i = 9; i > 5; i -= 3)", "for (; i >= 0; --i)", "{ S1[i] : 0 <= i <= 3 }"),
        ("for (i = 7; i < 5; i++)", "for (; i < 10; i += 2)", "{ S1[i] : 7 <= i < 10 and (i - 7) mod 2 = 0 }"),
        (
            "for (i = 0; i + 1 < N; i += 2)",
            "for (; i < N; i++)",
            "[N] -> { S1[i] : i = N - 1 and i >= 0 and i mod 2 = 0 }",
        ),
        ("for (i = M; i < N; i++)", "for (; i < 1000; i++)", "[N, M] -> { S1[i] : N <= i < 1000 and M <= i }"),
        ("for (i = 0; i < N; i++)", "for (int j = i; j < 1000; j++)", "[N] -> { S1[j] : 0 <= j and N <= j < 1000 }"),
    ],
)
def test_a_loop_variable_keeps_its_value(tmp_path: Path, first: str, then: str, domain: str) -> None:
    found = scop(
        tmp_path, f"{HEAD} {{ int i;\n#pragma scop\n{first} A[0] = 1.0; {then} B[0] = 1.0;\n#pragma endscop\n}}"
    )
    assert same_set(found.statements[1].domain, domain)


@pytest.mark.parametrize(
    "body",
    [
        "for (; i < N; i++) A[i] = 1.0;",
        "for (int j = 0; j < N; j++) for (i = j; i < M; i++) A[i] = 1.0; for (; i < N; i++) A[i] = 2.0;",
    ],
)
def test_a_value_that_is_not_known_is_none_to_go_on_with(tmp_path: Path, body: str) -> None:
    with pytest.raises(InputErrors, match="the loop does not initialise its variable"):
        scop(tmp_path, f"{HEAD} {{ int i;\n#pragma scop\n{body}\n#pragma endscop\n}}")


@pytest.mark.parametrize(
    ("condition", "constraint"),
    [
        ("i == 3", "i = 3"),
        ("i != 3", "i != 3"),
        ("i > 2 && i < 7", "2 < i < 7"),
        ("i < 2 || i > 7", "i < 2 or i > 7"),
        ("!(i < 2 || i > 7)", "2 <= i <= 7"),
        ("i % 2", "i mod 2 = 1"),
        ("!(i % 2)", "i mod 2 = 0"),
        ("(i - 5) / 2 == 0", "4 <= i <= 6"),
        ("(i - 5) % 3 == -1", "i <= 5 and (i - 5) mod 3 = 2"),
        ("i / -2 == -1", "2 <= i <= 3"),
        ("i >= N - 1", "i >= N - 1"),
        ("(i < 4) == (i < 6)", "i < 4 or i >= 6"),
        ("i", "i != 0"),
        ("1", "0 = 0"),
        ("0", "1 = 0"),
        ("(i > 5 ? i - 5 : 5 - i) <= 1", "4 <= i <= 6"),
        ("i - 5 >> 1 == -1", "3 <= i <= 4"),
    ],
)
def test_condition(tmp_path: Path, condition: str, constraint: str) -> None:
    found = region(tmp_path, f"for (int i = 0; i < 10; i++) {{ if ({condition}) A[i] = 1.0; else B[i] = 2.0; }}", HEAD)
    then, otherwise = found.statements
    assert same_set(then.domain, f"[N] -> {{ S0[i] : 0 <= i < 10 and ({constraint}) }}")
    everything = then.domain.reset_tuple_id().union(otherwise.domain.reset_tuple_id())
    assert same_set(everything.set_tuple_name("S"), "[N] -> { S[i] : 0 <= i < 10 }")
    assert then.domain.reset_tuple_id().is_disjoint(otherwise.domain.reset_tuple_id())


def test_positions_are_the_2d_plus_1_schedule(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        """
        A[0] = 0.0;
        for (int i = 0; i < N; i++) {
          A[i] = 1.0;
          if (i > 2) { A[i] = 2.0; B[i] = 3.0; }
          for (int j = 0; j < i; j++) B[j] = 4.0;
        }
        B[0] = 5.0;
        """,
        HEAD,
    )
    assert [s.position for s in found.statements] == [(0,), (1, 0), (1, 1), (1, 2), (1, 3, 0), (2,)]
    assert [s.name for s in found.statements] == ["S0", "S1", "S2", "S3", "S4", "S5"]
    assert found.statements[4].iterators == ("i", "j")
    assert same_set(found.statements[4].domain, "[N] -> { S4[i, j] : 0 <= j < i < N }")


def test_min_max_macros_and_inline_functions_in_bounds(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        #define MIN(a, b) ((a) < (b) ? (a) : (b))
        #define MAX(a, b) ((a) > (b) ? (a) : (b))
        void f(int N, double A[N]) {
          int it, i;
        #pragma scop
          for (it = 0; it < N; it += 32)
            for (i = MAX(it, 1); i < MIN(it + 32, N); i++)
              A[i] = 1.0;
        #pragma endscop
        }""",
    )
    expected = "[N] -> { S0[it, i] : 0 <= it < N and it mod 32 = 0 and 1 <= i and it <= i < it + 32 and i < N }"
    assert same_set(found.statements[0].domain, expected)
    assert found.region.declared_outside == ("int it", "int i")


def test_affine_temporaries_are_substituted(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        """
        int row = 0, t;
        for (int i = 0; i < 8; i++) {
          t = 2 * i;
          if (i > 3) t += 1;
          int u = t + 1;
          u++;
          B[u + row] = A[t];
        }
        """,
        HEAD,
    )
    (statement,) = found.statements
    assert same_map(
        write(statement).relation,
        "{ S0[i] -> B[a] : (0 <= i <= 3 and a = 2i + 2) or (4 <= i < 8 and a = 2i + 3) }",
    )
    assert set(found.arrays) == {"A", "B"}


def test_parameters_of_the_context(tmp_path: Path) -> None:
    found = region(
        tmp_path,
        "#pragma polydl assume(N > 2 * M && N % 16 == 0)\nfor (int i = 0; i < N; i++) A[i][0] = 1.0;",
    )
    assert same_set(found.context.params(), "[N, M] -> { : N > 2M and N mod 16 = 0 and N >= 0 and M >= 0 }")
    assert found.parameters == ("N", "M")


def test_not_equal_with_an_unprovable_end_needs_an_assumption(tmp_path: Path) -> None:
    head = "void f(int N, double *A)"
    with pytest.raises(InputErrors, match="may never end"):
        region(tmp_path, "for (int i = 0; i != N; i++) A[0] = 1.0;", head)
    found = region(tmp_path, "#pragma polydl assume(N >= 0)\nfor (int i = 0; i != N; i++) A[0] = 1.0;", head)
    assert same_set(
        found.statements[0].domain.intersect_params(found.context.params()), "[N] -> { S0[i] : 0 <= i < N }"
    )


def test_values_known_from_constants_need_no_size(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        enum { N = 12, TWICE = 2 * N };
        static const int K = 5;
        double A[TWICE];
        void f(void) {
          const int step = 2;
        #pragma scop
          for (int i = K; i < TWICE; i += step) A[i] = 1.0;
        #pragma endscop
        }""",
        require_sizes=True,
    )
    assert same_set(found.statements[0].domain, "{ S0[i] : 5 <= i < 24 and (i - 5) mod 2 = 0 }")
    assert found.guards == ()


def test_unsigned_parameters_are_not_negative(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        #include <stddef.h>
        void f(size_t n, float *restrict x) {
        #pragma scop
          for (size_t i = 0; i < n; i++) x[i] = 0.0f;
        #pragma endscop
        }""",
    )
    assert same_set(found.context.params(), "[n] -> { : n >= 0 }")


def test_names_that_are_isl_keywords(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        void f(int exists, double floor[exists]) {
        #pragma scop
          for (int mod = 0; mod < exists; mod++) floor[mod] = 1.0;
        #pragma endscop
        }""",
    )
    (statement,) = found.statements
    assert statement.iterators == ("mod",)
    assert found.parameters == ("exists",)
    assert not statement.domain.is_empty()
