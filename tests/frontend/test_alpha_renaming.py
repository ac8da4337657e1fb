"""Variables that hide others, and those of several types with one name, have names of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pycparser.c_ast import Compound
from pycparser.c_parser import CParser

from polydl.frontend.core.alpha_renaming import alpha_renamed
from polydl.frontend.core.tree_parts import text_of
from polydl.frontend.meaning.symbols import Scope
from polydl.model.scop import Storage
from tests.frontend.reading import scop

CASES = {
    "several types": (
        "for (i = 0;;) { float t = 1; t; } for (;;) { double t = 2; t; } for (;;) { float t = 3; t; }",
        "for (i = 0;;) { float t = 1; t; } for (;;) { double t_2 = 2; t_2; } for (;;) { float t = 3; t; }",
    ),
    "inner ones": ("for (;;) { int t = 1; { int t = 2; t; } t; }", "for (;;) { int t = 1; { int t_2 = 2; t_2; } t; }"),
    "loops in loops": ("for (int i = 0;;) for (int i = i;;) i;", "for (int i = 0;;) for (int i_2 = i_2;;) i_2;"),
    "a counter around": ("for (k = 0;;) { for (int k = 1;;) k; k; }", "for (k = 0;;) { for (int k_2 = 1;;) k_2; k; }"),
    "a counter beside": ("for (k = 0;;) k; for (int k = 1;;) k;", None),
    "a parameter that is not used": ("for (int n = 0;;) n;", None),
    "a parameter that is used": ("n; for (int n = 0;;) n;", "n; for (int n_2 = 0;;) n_2;"),
    "a size of what is used": ("a; for (int n = 0;;) n;", "a; for (int n_2 = 0;;) n_2;"),
    "what hides a parameter": ("{ float n = 1; n; }", "{ float n_2 = 1; n_2; }"),
    "members": ("for (;;) { int t; } for (;;) { float t; s.t = t; }",
                "for (;;) { int t; } for (;;) { float t_2; s.t = t_2; }"),
    "members of a structure of theirs": ("for (;;) { float t; t; } for (;;) { struct { double t; } t; t.t = 1; }",
        "for (;;) { float t; t; } for (;;) { struct { double t; } t_2; t_2.t = 1; }"),
    "what others see behind": ("for (;;) { int t; t; } float t = 1; t;", "for (;;) { int t_2; t_2; } float t = 1; t;"),
    "names that are taken": ("for (;;) { int t, t_2; t; } for (;;) { float t; t; }",
                             "for (;;) { int t, t_2; t; } for (;;) { float t_3; t_3; }"),
    "arrays": ("for (;;) { int t; } for (;;) { float t[2]; t[1] = sizeof(t); }",
               "for (;;) { int t; } for (;;) { float t_2[2]; t_2[1] = sizeof(t_2); }"),
}  # fmt: skip


def _parsed(text: str) -> Compound:
    body = CParser().parse(f"void f(int n, float a[n]) {{ int k, i; {text} }}").ext[0].body
    assert isinstance(body, Compound)
    return body


@pytest.mark.parametrize("name", CASES)
def test_names(name: str) -> None:
    before, after = CASES[name]
    scope = Scope()
    function = CParser().parse("void f(int n, float a[n]);").ext[0]
    for parameter in function.type.args.params:
        scope.declare(parameter, Storage.PARAMETER, lambda node, scope: None)
    scope = Scope(scope)
    for declared in _parsed("").block_items or ():
        scope.declare(declared, Storage.LOCAL, lambda node, scope: None)
    items = (_parsed(before).block_items or [])[2:]
    wanted = (_parsed(before if after is None else after).block_items or [])[2:]
    assert [*map(text_of, alpha_renamed(items, scope, ()))] == [*map(text_of, wanted)]
    assert [*map(text_of, items)] == [*map(text_of, (_parsed(before).block_items or [])[2:])], "no tree is changed"


def test_facts_are_about_the_outer_ones(tmp_path: Path) -> None:
    found = scop(
        tmp_path,
        "void f(int n, float *a) {\n#pragma scop\n#pragma polydl assume(n > 3)\n"
        "for (int i = 0; i < n; i++) { float n = i; a[i] = n; }\n#pragma endscop\n}",
    )
    assert "n_2" in found.arrays and found.parameters == ("n",)


def test_names_that_stay() -> None:
    items = _parsed("for (;;) { int t; } for (;;) { float t; }").block_items or []
    assert alpha_renamed(items, Scope(), {"t"}) == items
