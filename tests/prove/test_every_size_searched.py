"""Code for all sizes of programs without contractions is read back and proved with its sizes as parameters, and a
mistake in it never passes."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polydl
from polydl.base.effort import Effort
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.lower.emit import Generated, generate
from polydl.lower.guarded_pieces import dispatched, where_all_runs
from polydl.lower.instance_marks import without_marks
from polydl.lower.region import original_text
from polydl.model import isl
from polydl.model.scop import Scop
from polydl.prove import Proof, prove_every_size
from polydl.prove.integers import Affine, extreme, floor, loop, not_negative, number
from polydl.rewrite.canonical import canonical
from polydl.schedule.ordered import ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.recipe import Recipe
from polydl.schedule.transform import Transform
from polydl.schedule.transforms import Tile, Vectorize
from polydl.search.sizes import choose
from polydl.search.sizes.code import EverySize, Setting, Symbolic
from polydl.search.sizes.dispatch import Question
from polydl.search.sizes.searched import every_size_of_searched
from tests.efforts import EVEN_SLOWER, FEW_SEARCHED
from tests.prove import mutations
from tests.search.test_every_size_searched import CASES, FLAGS, best_when_large, compared, ranked


@cache
def made(name: str, *, large: bool, original: bool = False) -> tuple[Scop, EverySize]:
    """A case of the search's tests with its sizes as parameters, and its code for all sizes: as the estimates choose
    it, or what is best for the largest sizes at all of them, or (`original`) beside the original loops for small
    ones."""
    with pytest.MonkeyPatch.context() as context:
        if original:
            context.setattr(choose, "few", lambda losses, most, near: [0, 1])
            context.setattr(choose, "tree", lambda losses, features: Question(0, 50.0, 0, 1))
        if large:
            context.setattr(choose, "tree", best_when_large)
        case, ranking = CASES[name], ranked(name)
        (symbolic,) = polydl.load(case.source, require_sizes=False).scops
        ranges = {size: (1, 32 * value) for size, value in case.tuned.items()}
        effort = EVEN_SLOWER if original or large else FEW_SEARCHED
        setting = Setting(
            ranking.machine, 2, instances=True, effort=replace(effort, child_seconds=Effort().child_seconds)
        )
        found = every_size_of_searched(Symbolic.of(symbolic), ranges, ranking.variants, setting)
    assert isinstance(found, EverySize), found
    assert found.marked is not None
    assert without_marks(found.marked.region) == found.generated.region
    return symbolic, found


def proof(symbolic: Scop, found: EverySize, region: str | None = None) -> Proof:
    """Of the code, or of another text in place of it."""
    assert found.marked is not None
    marked = found.marked if region is None else replace(found.marked, region=region)
    plain = replace(found.generated, region=without_marks(marked.region))
    return prove_every_size(symbolic, plain, marked, rewritten=found.rewritten)


@pytest.mark.parametrize(
    ("name", "large"), [("stencil in place", False), ("jacobi in two dimensions", True), ("two nests fused", True)]
)
def test_it_is_proved_for_all_sizes(name: str, large: bool) -> None:
    """Tiles along diagonals on all threads, and rows in lanes."""
    found = proof(*made(name, large=large))
    assert found.holds, found.reason
    assert found.proved[0].startswith("for all sizes, in ")


def test_the_original_loops_may_be_one_of_the_pieces() -> None:
    symbolic, found = made("prefix sums", large=False, original=True)
    assert Recipe(()) in found.recipes
    assert proof(symbolic, found).holds
    assert found.marked is not None
    original = original_text(symbolic)
    pieces = found.marked.region.split(original)
    assert len(pieces) == 3
    for wrong in ("i < m - 1;", "i <= m;"):
        changed = original.replace("i < m;", wrong)
        assert changed != original
        assert not proof(symbolic, found, pieces[0] + changed + original.join(pieces[1:])).holds
        assert not proof(symbolic, found, original.join(pieces[:2]) + changed + pieces[2]).holds


def test_rows_of_fewer_columns_than_none_are_counted_with_a_sign() -> None:
    symbolic, found = made("downwards", large=True)
    assert found.marked is not None
    assert proof(symbolic, found).holds
    whole = found.marked.prologue
    unsigned = tuple(piece.replace("(const ptrdiff_t n,", "(const size_t n,") for piece in whole)
    assert unsigned != whole
    marked = replace(found.marked, prologue=unsigned)
    other = prove_every_size(symbolic, replace(found.generated, prologue=unsigned), marked)
    assert any("a type without negative values" in said for said in other.trusted)


def printed(source: str, *transforms: Transform) -> tuple[Scop, Generated, Generated]:
    """A program of one nest with its sizes as parameters, and its code, also with marks."""
    (scop,) = polydl.load(source, require_sizes=False).scops
    scop = canonical(scop).scop
    structures = [ordered(nest, transforms) for nest in nests(scop, dependences(scop))]
    codes = [generate(scop, program_tree(structures), instances=marks, other_sizes=True) for marks in (False, True)]
    some = where_all_runs(scop)
    code, marked = (dispatched(scop, some, one) for one in codes)
    return scop, code, marked


def test_rows_of_any_number_of_columns_are_read() -> None:
    """Nothing of them is taken for granted."""
    symbolic, found = made("downwards", large=True)
    assert found.marked is not None
    assert proof(symbolic, found).trusted == ()
    mistakes_in = (
        (r"^    if \(j < n\)", "    if (j + 1 < n)"),
        (r"first\(n - j\)", "first(n - j - 1)"),
        (r"^    ptrdiff_t j = 0", "    ptrdiff_t j = 1"),
        (r"(?<=j \+= )POLYDL_F64_LANES", "2 * POLYDL_F64_LANES"),
    )
    for pattern, new in mistakes_in:
        prologue = tuple(re.sub(pattern, new, piece, flags=re.MULTILINE) for piece in found.marked.prologue)
        assert prologue != found.marked.prologue
        code, marked = (replace(one, prologue=prologue) for one in (found.generated, found.marked))
        assert prove_every_size(symbolic, code, marked).verdict == "wrong"


def test_a_sum_of_nothing_is_not_added() -> None:
    """What it is added to may be no element."""
    source = """
void f(int n, const float A[restrict n][n], const float x[restrict n], float y[restrict n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            y[i] += A[i][j] * x[j];
}
"""
    scop, code, marked = printed(source, Vectorize())
    assert prove_every_size(scop, code, marked).holds
    guarded = marked.region.replace("for (long c0 = 1;", "for (long c0 = 0;")
    assert guarded != marked.region
    assert prove_every_size(scop, replace(code, region=without_marks(guarded)), replace(marked, region=guarded)).holds
    region = guarded.replace("if (c0 > 0) {", "{")
    assert region != guarded
    wrong = prove_every_size(scop, replace(code, region=without_marks(region)), replace(marked, region=region))
    assert wrong.verdict == "open"
    assert "a sum over a row that may have no columns" in wrong.reason


def test_loops_to_collapse_are_as_long_in_each_iteration() -> None:
    symbolic, found = made("transpose", large=True)
    assert found.marked is not None
    assert proof(symbolic, found).holds
    loops = re.search(r"( *for \(long c1 .*\n)( *for \(long c2 .*\n)", found.marked.region)
    assert loops is not None
    assert "collapse(2)" in found.marked.region
    region = found.marked.region.replace(loops.group(), loops.group(2) + loops.group(1))
    assert proof(symbolic, found, region).verdict == "open"


MUTATED = {"triangular solver": 2, "stencil in place": 2}
"""Of each kind of mistake so many."""


@pytest.mark.parametrize("name", MUTATED)
def test_a_mistake_is_never_proved(name: str) -> None:
    """Nor is a change that changes nothing called a mistake: what is proved runs like the original at all sizes."""
    assert mistakes(name, MUTATED[name], 3) >= 9


@settings(max_examples=200)
@given(st.data())
def test_inequalities_have_no_case_distinctions(data: st.DataObject) -> None:
    """They say the same as those with least and greatest values and divisions."""
    value = data.draw(values(3))
    plain = isl.Set(f"{{ [i0, i1] : -9 <= i0, i1 <= 9 and ({value}) >= 0 }}")
    assert isl.Set(f"{{ [i0, i1] : -9 <= i0, i1 <= 9 and {not_negative(value)} }}").is_equal(plain)


def values(depth: int) -> st.SearchStrategy[Affine]:
    """Integer expressions of two loops."""
    few = st.integers(-3, 3)
    linear = st.builds(lambda a, b, c: loop(0).times(a).plus(loop(1), b).plus(number(c)), few, few, few)
    if not depth:
        return linear
    inner = values(depth - 1)
    return st.one_of(
        linear,
        st.builds(lambda a, n: floor(a, n), inner, st.integers(2, 5)),
        st.builds(extreme, st.sampled_from(["min", "max"]), inner, inner),
        st.builds(lambda a, b, n: a.plus(b, n), inner, linear, st.sampled_from([-2, -1, 1, 2])),
    )


def test_an_address_is_in_the_row_that_has_it() -> None:
    """The last element of n rows of n is `n*n - 1` from the first one: in row n - 1, not at -1 of row n."""
    source = """
void f(int m, int n, const float x[restrict m][n], float y[restrict m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            y[i][j] = x[m - 1 - i][n - 1 - j];
}
"""
    scop, code, marked = printed(source, Tile("i", (32,)), Vectorize())
    found = prove_every_size(scop, code, marked)
    assert found.holds, found.reason
    for old, new in (("m - 1 -", "m -"), ("n - 1 -", "n -"), ("n - 1 -", "n - 2 -")):
        region = re.sub(r"(x\[.*)", lambda line, o=old, n=new: line.group().replace(o, n), marked.region)
        assert region != marked.region
        wrong = prove_every_size(scop, replace(code, region=without_marks(region)), replace(marked, region=region))
        assert not wrong.holds


def mistakes(name: str, most: int, seed: int) -> int:
    """How many changes are not proved; an assertion fails for one that is and computes something else."""
    symbolic, found = made(name, large=True)
    assert found.marked is not None
    code, original, rest = found.marked.region.rpartition(original_text(symbolic))
    lines, caught = code.split("\n"), 0
    for kind in (*mutations.KINDS, mutations.row_begins, mutations.order):
        every = list(kind(lines))
        chosen = random.Random(f"{seed} {name} {kind.__name__}").sample(every, min(most, len(every)))
        for _, new in chosen:
            text = "\n".join(new) + original + rest
            if not proof(symbolic, found, text).holds:
                caught += 1
                continue
            changed = replace(found, generated=replace(found.generated, region=without_marks(text)))
            compared(name, changed, [flag for flag in FLAGS if not flag.startswith("-W")])  # a loop may be unused now
    return caught


UPWARDS = """
void upwards(unsigned n, double U[restrict n][n], double x[restrict n])
{
    for (unsigned i = n; i-- > 0;)
        for (unsigned j = i + 1; j < n; j++)
            x[i] -= U[i][j] * x[j];
}
"""


def test_unsigned_sizes_are_made_signed_before_anything_is_taken_from_them() -> None:
    """`2 - n` of an unsigned n is far above zero."""
    ranking = polydl.rank(UPWARDS, "small", "epyc-zen5", sizes={"n": 64}, threads=2)
    (symbolic,) = polydl.load(UPWARDS, require_sizes=False).scops
    assert symbolic.unsigned == {"n"}
    effort = replace(EVEN_SLOWER, child_seconds=Effort().child_seconds)
    setting = Setting(ranking.machine, 2, instances=True, effort=effort)
    found = every_size_of_searched(Symbolic.of(symbolic), {"n": (1, 2048)}, ranking.variants, setting)
    assert isinstance(found, EverySize), found
    assert found.marked is not None and "(long)n" in found.marked.region
    assert proof(symbolic, found).holds
    assert not proof(symbolic, found, found.marked.region.replace("(long)n", "n")).holds
