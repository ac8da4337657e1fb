"""Nests, regions and whole programs are trees of one kind, checked and looked at by the same functions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from polydl import load, pipeline
from polydl.base.errors import IllegalVariant
from polydl.dependences.analysis import dependences
from polydl.dependences.nests import nests
from polydl.locality.exact import working_sets
from polydl.lower.emit import generate
from polydl.lower.splice import splice
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.schedule.as_tree import as_tree, written
from polydl.schedule.check import check
from polydl.schedule.direction import moving
from polydl.schedule.fusion_groups import groups_of
from polydl.schedule.loops import NestLoops, apply, start
from polydl.schedule.ordered import Ordered, ordered
from polydl.schedule.program_tree import program_tree
from polydl.schedule.relations import direct
from polydl.schedule.timed import original_nest, timed
from polydl.schedule.transforms import Fuse, Microkernel, Pack, Parallelize, Permute, Schedule, Tile, Vectorize
from polydl.schedule.tree import Band, Copy, Kernel, Leaf, Node, Run, Sequence, kernels, statements
from polydl.schedule.tree_check import broken
from polydl.search.candidates import bases, made
from tests.programs.corpus import catalogue
from tests.schedule.test_schedules import compares, scop_of, text

GEMM_RELU = """
void f(float C[restrict 40][48], const float A[restrict 40][64], const float B[restrict 64][48], float D[restrict 40])
{
#pragma scop
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 48; j++)
            for (int k = 0; k < 64; k++)
                C[i][j] += A[i][k] * B[k][j];
    for (int i = 0; i < 40; i++)
        for (int j = 0; j < 48; j++)
            C[i][j] = C[i][j] > 0 ? C[i][j] : 0;
    for (int i = 0; i < 40; i++)
        D[i] = C[i][0];
#pragma endscop
}
"""
KERNEL = (
    Tile("k", (32,)),
    Microkernel("i", "j", 4, 16, ("k.1",)),
    Permute(("j", "k.0", "i")),
    Parallelize(("j",)),
    Pack("B", "k.0"),
)


def parts_of(scop: Scop) -> list[NestLoops]:
    return [start(nest) for nest in nests(scop, dependences(scop, reads=False))]


def shape(node: Node) -> str:
    match node:
        case Leaf(statement):
            return statement
        case Kernel():
            return f"kernel {node.statement}"
        case Copy(packs, _, child):
            return f"copy {', '.join(pack.operand for pack in packs)}: {shape(child)}"
        case Band(members, child):
            marks = {Run.SERIAL: "", Run.PARALLEL: "*", Run.SIMD: "v", Run.SUM: "+"}
            return f"[{' '.join(m.name + marks[m.run] for m in members)}] {shape(child)}"
        case Sequence(children):
            return f"({'; '.join(map(shape, children))})"


def test_a_nest_is_a_small_tree(tmp_path: Path) -> None:
    gemm, *_ = parts_of(text(tmp_path, GEMM_RELU))
    tree = as_tree(apply(gemm.nest, KERNEL))
    assert shape(tree) == "[j* k.0] copy B: [i] (kernel S0; [i.mk k.1 j.mk] S0)"
    assert statements(tree) == ("S0",)


def test_a_program_is_a_sequence(tmp_path: Path) -> None:
    scop = text(tmp_path, GEMM_RELU)
    found = dependences(scop, reads=False)
    gemm, relu, column = parts_of(scop)
    relu_, column_ = Ordered.nest(relu), Ordered.nest(column)
    heavy = ordered(gemm.nest, KERNEL)
    region = Ordered.scheduled(column.statements, Schedule("written"), written(column.statements))
    for parts in ([heavy, relu_, column_], [heavy, relu_, region]):
        assert check(scop, program_tree(parts), found) is None
        wrong = check(scop, program_tree([parts[1], parts[0], parts[2]]), found)
        assert wrong is not None
        assert "dependence on C: S1[" in wrong or "dependence on C: S0[" in wrong
    inside = Ordered.nest(relu).after(Fuse("S0"))
    assert check(scop, program_tree([heavy, inside, region]), found) is None
    assert "S2" in (check(scop, program_tree([region, heavy, inside]), found) or "")
    first, again, without = (program_tree(parts).children[0] for parts in ([heavy, inside], [heavy, inside], [heavy]))
    assert first is again is not without


def test_only_a_microkernel_takes_other_statements_in(tmp_path: Path) -> None:
    scop = text(tmp_path, GEMM_RELU)
    gemm, relu, column = parts_of(scop)
    inside = Ordered.nest(relu).after(Fuse("S0"))
    parts = [Ordered.nest(gemm), inside, Ordered.nest(column)]
    (group,) = groups_of(parts).values()
    with pytest.raises(IllegalVariant, match="no microkernel"):
        parts[0].running(group, None)
    with pytest.raises(IllegalVariant, match="no microkernel"):
        program_tree(parts)


def test_what_is_copied_does_not_change_before_it_is_read() -> None:
    """In LU a tile's copy of B is made in that tile; all tiles could not use one that was made before the first."""
    scop = scop_of("lu")
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    seen = 0
    for name, base in bases(scop, scop.statements, links, lambda: links, [], set()):
        how = Schedule(name, (8,), block=(4, 8))
        tree = made(scop, moving(scop, scop.statements), links, base, how, reassociate=True)
        if list(kernels(tree)):
            assert broken(scop, scop.statements, tree, found, reassociate=True) is None
            kernel = next(kernels(tree))
            once = Copy(kernel.use.packs, kernel, tree)
            assert "dependence on A" in (broken(scop, scop.statements, once, found, reassociate=True) or "")
            seen += 1
    assert seen


def test_equal_rows_of_different_statements_are_one_function(tmp_path: Path) -> None:
    """A comment told them apart: the function was written twice."""
    scop = text(
        tmp_path,
        "void f(float a[restrict 99], float b[restrict 99]) {\n#pragma scop\n"
        "for (int i = 0; i < 99; i++) a[i] = 0;\nfor (int i = 0; i < 99; i++) b[98 - i] = a[i];\n"
        "for (int i = 0; i < 99; i++) a[i] = 0;\n#pragma endscop\n}\n",
    )
    parts = [Ordered.nest(part).after(Vectorize()) for part in parts_of(scop)]
    made_of = generate(scop, program_tree(parts))
    rows = [piece for piece in made_of.prologue if "static" in piece and "_row_f32" in piece]
    assert made_of.region.count("polydl_row_f32_") == 2
    assert len(rows) == 1


@pytest.mark.parametrize("name", ["jacobi_1d", "gemver", "lu", "bicg", "covariance"])
def test_working_sets_of_a_tree(name: str) -> None:
    """Those of the order as it is written, by its tree and by the 2d+1 schedule."""
    scop = scop_of(name)
    region = Ordered.scheduled(scop.statements, Schedule("written"), written(scop.statements))
    one, two = working_sets(timed(scop, region.tree)), working_sets(original_nest(scop))
    sizes = [
        sorted((s.kind.value, s.array, s.source_statement, s.target_statement, s.min.lower, s.max.upper) for s in each)
        for each in (one, two)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("name", "longer"),
    [("batchnorm", None), ("layernorm", None), ("softmax", None), ("attention_causal", {"S": 67, "D": 64})],
)
def test_rows_inside_of_regions(tmp_path: Path, name: str, longer: Mapping[str, int] | None) -> None:
    """Innermost loops of regions with schedules of their own as vector functions."""
    entry = catalogue()[name]
    values = longer or entry.sizes[0]
    options = Options(defines=entry.defines(values), sizes=entry.parameters(values), threads=3, machine="epyc-zen5")
    program = load(entry.path, options)
    (scop,) = program.scops
    found = pipeline.with_fused(pipeline.rank(scop, options=options), options)
    chosen = [v for v in found if any(part.rows for part in v.scheduled)]
    assert chosen
    texts = []
    for variant in chosen:
        assert variant.illegal is None
        assert variant.generated.rows
        assert "Vectorize" in str(variant.recipe)
        texts.append(splice(program.source, [(scop, variant.generated)], ""))
    done = compares(tmp_path, name, texts, ("-march=native",), values)
    assert done.returncode == 0, done.stdout + done.stderr


INNER_SUM = """
void f(const int col[restrict 40][48], const float x[restrict 90], float y[restrict 40])
{
#pragma scop
    for (int i = 0; i < 40; i++) {
        y[i] = 0;
        for (int k = 0; k < 48; k++)
            y[i] += x[col[i][k]];
    }
#pragma endscop
}
"""


@pytest.mark.parametrize("reassociate", [True, False])
def test_sums_inside_of_other_loops_run_in_lanes(tmp_path: Path, reassociate: bool) -> None:
    """Whether their target stays is seen with the loops around them."""
    scop = text(tmp_path, INNER_SUM)
    found = dependences(scop, reads=False)
    links = direct(scop, scop.statements, found)
    how = Schedule("written", parallel=True, simd=True)
    tree = made(scop, moving(scop, scop.statements), links, written(scop.statements), how, reassociate=reassociate)
    assert shape(tree) == ("[*] (S0; [+] S1)" if reassociate else "[*] (S0; [] S1)")
    assert broken(scop, scop.statements, tree, found, reassociate=reassociate) is None
