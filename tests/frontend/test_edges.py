"""Constructs of real code that are easy to get wrong."""

from __future__ import annotations

from pathlib import Path

import islpy as isl

from polydl.frontend.meaning.delinearize import _floor_of_minimum
from polydl.model.scop import MicrokernelCall
from tests.frontend.reading import region, same_map, same_set, scop, write


def test_a_loop_variable_may_hide_what_the_region_does_not_use(tmp_path: Path) -> None:
    nest = "\n#pragma scop\n{}for (int i = 0; i < 9; i++) A[i] = 0;\n#pragma endscop\n}}"
    found = scop(tmp_path, "void f(float *A) { int i = 3; i++;" + nest.format(""))
    assert same_set(found.statements[0].domain, "{ S0[i] : 0 <= i < 9 }")
    found = scop(tmp_path, "void f(int i, float *A) {" + nest.format("for (int j = 0; j < i; j++) A[j] = 1; "))
    assert same_set(found.statements[1].domain, "[i] -> { S1[i_2] : 0 <= i_2 < 9 }")


def test_do_while_zero_is_a_block(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "#define SET(x) do { A[x] = 0; } while (0)\nvoid f(float *A) {\n#pragma scop\n"
        "for (int j = 0; j < 9; j++) SET(j + 1);\n#pragma endscop\n}",
    )
    assert same_map(write(found.statements[0]).relation, "{ S0[j] -> A[j + 1] : 0 <= j < 9 }")


def test_a_local_that_keeps_its_value_needs_no_size(tmp_path: Path) -> None:
    code = (
        "void f(float *A) {{ int n = 10; {}\n#pragma scop\nfor (int j = 0; j < n; j++) A[j] = 0;\n#pragma endscop\n}}"
    )
    assert scop(tmp_path, code.format(""), require_sizes=True).parameters == ()
    assert scop(tmp_path, code.format("n = 4;")).parameters == ("n",)


def test_temporaries_inside_a_microkernel_are_its_own(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        void g(const float *a, float *c);
        void f(float A[restrict 8][8], float C[restrict 8]) {
        #pragma scop
          for (int i = 0; i < 8; i++) {
        #pragma polydl microkernel call(g(A[i], &C[i]))
            { float acc = 0; for (int k = 0; k < 8; k++) acc += A[i][k]; C[i] = acc; }
          }
        #pragma endscop
        }""",
    )
    (statement,) = found.statements
    assert isinstance(statement.body, MicrokernelCall)
    assert {access.array for access in statement.accesses} == {"A", "C"}


def test_a_parameter_that_cancels_in_a_subscript_is_still_one(tmp_path: Path) -> None:
    found = region(tmp_path, "A[m - m] += 2 * m;", "void f(int m, int *A)")
    assert found.parameters == ("m",)
    assert same_map(write(found.statements[0]).relation, "[m] -> { S0[] -> A[0] }")


def test_facts_behind_the_region_count(tmp_path: Path) -> None:
    code = "void f(float *A, float *B) {\n#pragma scop\nfor (int i = 0; i < 9; i++) A[i] = B[i];\n#pragma endscop\n"
    assert scop(tmp_path, code + "#pragma polydl dead(B)\n}").live_out == {"A"}


def test_constants_depend_on_macros(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "#ifndef SIZE\n#define SIZE 7\n#endif\nenum { HALF = SIZE / 2, N };\nvoid f(float *A) {\n#pragma scop\n"
        "for (int i = 0; i < N; i++) A[i] = 0;\n#pragma endscop\n}",
    )
    assert same_set(found.statements[0].domain, "{ S0[i] : 0 <= i < 4 }")
    assert {guard.name: guard.value for guard in found.guards} == {"SIZE": 7}


def test_the_minimum_of_a_function_with_halves() -> None:
    """Half of an even number: isl's own minimum of such a function fails."""
    halves = isl.PwAff("{ S[l] -> [l/2] : 5 <= l < 9 and l mod 2 = 0 }")
    assert _floor_of_minimum(halves, halves.domain(), 2) == 1
    assert _floor_of_minimum(halves, isl.Set("{ S[l] : l > 100 }"), 2) == 0
    assert _floor_of_minimum(isl.PwAff("{ S[l] -> [l] : l < 9 }"), isl.Set("{ S[l] }"), 2) == 0


def test_pointers_that_are_made_from_each_other_may_not_overlap(tmp_path: Path) -> None:
    """Swapped, restrict, allocated and loaded pointers are no places in one array that the function tells apart."""
    found = scop(
        tmp_path,
        """
        void *malloc(unsigned long);
        void f(int n, float *a, float *b, float **rows, int flip) {
            float *src = a, *dst = b, *t, *r0 = rows[0], *r1 = rows[1], *restrict q = b + n;
            float *m1 = malloc(400), *m2 = malloc(400), *u = flip ? a : b, *v = flip ? b : a;
            for (int s = 0; s < 3; s++) {
        #pragma scop
                for (int i = 1; i < 9; i++) {
                    dst[i] = src[i] + src[i - 1]; r0[i] = r1[i]; q[i] = b[i]; m1[i] = m2[i]; u[i] = v[i];
                }
        #pragma endscop
                t = src; src = dst; dst = t;
            }
        }""",
    )
    assert len(found.statements) == 5


def test_bodies_without_braces(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        """
        void f(int kind[9], float A[9]) {
            for (int i = 0; i < 9; i++)
                switch (kind[i]) { case 0: A[i] = 0; break; default: A[i] = 1; }
            for (int i = 0; i < 9; i++)
                do A[i] += 1; while (0);
        }""",
    )
    assert len(found.statements) == 2
