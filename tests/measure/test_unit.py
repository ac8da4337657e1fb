"""The synthetic region function: it computes the same whatever surrounds the region."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import islpy as isl
import pytest

from polydl.base.errors import InputError, ToolchainError
from polydl.lower.emit import Generated
from polydl.measure import ORIGINAL, Measurement, Status, Toolchain, measure
from polydl.measure.input_data import describe_buffers
from polydl.measure.unit import original_code, unit_text
from polydl.model.expr import Binary, Const, Load
from polydl.model.scop import Guard, Scop, Storage
from tests.compiling import run_compiler
from tests.measure.builders import PRODUCT, QUICK, array, extent, matmul, scop, statement


def outcomes(program: Scop, *regions: str, prologue: str = "", toolchain: Toolchain = Toolchain()) -> list[Measurement]:  # noqa: B008
    """What becomes of candidates with these regions."""
    codes = {f"v{i}": Generated((prologue,), region) for i, region in enumerate(regions)}
    return list(measure(program, codes, toolchain, QUICK).measurements)


def statuses(program: Scop, *regions: str) -> list[Status]:
    return [m.status for m in outcomes(program, *regions)]


def vector(text: str, **more: object) -> Scop:
    """`y[i] += x[i] * 2` over ten elements of two arrays that are parameters unless `arrays` says otherwise."""
    update = statement("{ S0[i] : 0 <= i < 10 }", ("y", "i"), (("x", "i"),), Binary("*", Load(0), Const("2")), "+=")
    arrays = more.pop("arrays", (array("x", 10), array("y", 10)))
    return scop(text, arrays, (update,), **more)  # type: ignore[arg-type]


RIGHT, WRONG = "for (int j = 9; j >= 0; j--) y[j] += 2 * x[j];", "for (int j = 9; j > 0; j--) y[j] += 2 * x[j];"
LOOP = "#pragma scop\nfor (i = 0; i < 10; i++)\n    y[i] += x[i] * 2;\n#pragma endscop\n"


def test_region_in_main_with_locals() -> None:
    text = (
        f"#include <stdio.h>\nint main(int argc, char **argv)\n{{\nfloat x[10], y[10];\nint i;\n{LOOP}return 0;\n}}\n"
    )
    arrays = (array("x", 10, storage=Storage.LOCAL), array("y", 10, storage=Storage.LOCAL))
    program = vector(text, arrays=arrays, function="int main", declared_outside=("int i",))
    assert statuses(program, RIGHT, WRONG) == [Status.VERIFIED, Status.WRONG]


def test_globals_in_place() -> None:
    text = f"static float x[10];\nfloat y[10];\nvoid kernel(void)\n{{\nint i;\n{LOOP}}}\n"
    arrays = (array("x", 10, storage=Storage.GLOBAL), array("y", 10, storage=Storage.GLOBAL))
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    found = outcomes(program, RIGHT, WRONG, "for (int i = 0; i < 10; i++) { y[i] += 2 * x[i]; x[i] = 0; }")
    assert [m.status for m in found] == [Status.VERIFIED, Status.WRONG, Status.WRONG]
    assert "'x', which the original only reads" in found[2].message
    assert found[1].worst is not None
    assert found[1].worst.indices == (0,)


def test_global_pointers_are_given_memory() -> None:
    text = f"float *x, *y;\nvoid kernel(void)\n{{\nint i;\n{LOOP}}}\n"
    arrays = tuple(
        array(name, 10, storage=Storage.GLOBAL, extents=(None,), declaration=f"float *{name}") for name in "xy"
    )
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    found = outcomes(program, RIGHT, WRONG, RIGHT + "y[10] = 1;")
    assert [m.status for m in found] == [Status.VERIFIED, Status.WRONG, Status.OUT_OF_BOUNDS]


def test_constant_global_is_left_alone() -> None:
    text = f"const float x[10] = {{3, 1, 4, 1, 5}};\nvoid kernel(float *restrict y)\n{{\nint i;\n{LOOP}}}\n"
    arrays = (array("x", 10, storage=Storage.GLOBAL, const=True), array("y", 10))
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    zeros = "for (int i = 0; i < 10; i++) if (i < 5) y[i] += 2 * x[i];"
    assert statuses(program, RIGHT, zeros) == [Status.VERIFIED, Status.VERIFIED]


def test_double_and_integers_and_unsigned_char() -> None:
    for ctype in ("double", "int", "unsigned char", "long long", "_Float16", "long double"):
        text = f"void kernel({ctype} x[restrict 10], {ctype} y[restrict 10])\n{{\nint i;\n{LOOP}}}\n"
        arrays = (array("x", 10, ctype=ctype), array("y", 10, ctype=ctype))
        program = vector(text, arrays=arrays, declared_outside=("int i",))
        assert statuses(program, RIGHT, WRONG) == [Status.VERIFIED, Status.WRONG], ctype


def test_typedef_names_stay_in_declarations() -> None:
    text = f"typedef double real;\nvoid kernel(real x[10], real y[10])\n{{\nint i;\n{LOOP}}}\n"
    arrays = tuple(array(name, 10, ctype="double", declaration=f"real {name}[10]") for name in "xy")
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    assert statuses(program, RIGHT, WRONG) == [Status.VERIFIED, Status.WRONG]


def test_compilers_with_other_sizes_are_refused() -> None:
    program = vector(f"void kernel()\n{LOOP}", arrays=(array("x", 10, ctype="long"), array("y", 10)))
    with pytest.raises(InputError, match=r"gives 4 bytes to an element of 'x' \('long'\).* to have 8"):
        describe_buffers(program, [(4, 0, 0), (4, 0, 0)])


def test_scalars_come_back() -> None:
    """A written scalar is compared; a read-only one is an input."""
    text = """\
float total;
void kernel(float x[10], float alpha)
{
    float s = 0;
#pragma scop
    for (int i = 0; i < 10; i++)
        s += alpha * x[i];
#pragma endscop
    total = s;
}
"""
    arrays = (
        array("x", 10),
        array("alpha", declaration="const float alpha"),
        array("s", storage=Storage.LOCAL),
    )
    update = statement("{ S0[i] : 0 <= i < 10 }", ("s", ""), (("alpha", ""), ("x", "i")), PRODUCT, "+=")
    program = scop(text, arrays, (update,))
    backwards = "for (int i = 9; i >= 0; i--) s += alpha * x[i];"
    found = outcomes(program, backwards, backwards.replace("alpha * ", ""), backwards + "s = -s;")
    assert [m.status for m in found] == [Status.VERIFIED, Status.WRONG, Status.WRONG]
    assert found[2].worst is not None
    assert found[2].worst.array == "s"
    assert found[2].worst.indices == ()


def test_global_scalar_in_place() -> None:
    loop = "#pragma scop\nfor (int i = 0; i < 10; i++) s += x[i];\n#pragma endscop\n"
    text = f"float s;\nvoid kernel(float x[10])\n{{\n{loop}}}\n"
    update = statement("{ S0[i] : 0 <= i < 10 }", ("s", ""), (("x", "i"),), Load(0), "+=")
    program = scop(text, (array("x", 10), array("s", storage=Storage.GLOBAL)), (update,))
    assert statuses(program, "for (int i = 9; i >= 0; i--) s += x[i];", "s += x[0];") == [Status.VERIFIED, Status.WRONG]


def test_region_array_is_dead() -> None:
    text = """\
void kernel(float x[restrict 10], float y[restrict 10])
{
    int i;
#pragma scop
    float t[10];
    for (i = 0; i < 10; i++) t[i] = 2 * x[i];
    for (i = 0; i < 10; i++) y[i] += t[i];
#pragma endscop
}
"""
    arrays = (array("x", 10), array("y", 10), array("t", 10, storage=Storage.REGION))
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    assert statuses(program, RIGHT, WRONG) == [Status.VERIFIED, Status.WRONG]


def test_sizes_that_are_function_parameters() -> None:
    text = """\
void kernel(int n, int m, float y[restrict n][m], float x[restrict n][m])
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            y[i][j] = x[i][j];
#pragma endscop
}
"""
    arrays = tuple(array(name, 5, 7, declaration=f"float {name}[restrict n][m]") for name in "yx")
    copy = statement("{ S0[i, j] : 0 <= i < 5 and 0 <= j < 7 }", ("y", "i, j"), (("x", "i, j"),), Load(0))
    guards = (Guard("n", 5, macro=False), Guard("m", 7, macro=False))
    program = scop(text, arrays, (copy,), guards=guards)
    right = "for (int j = 0; j < m; j++) for (int i = 0; i < n; i++) y[i][j] = x[i][j];"
    assert statuses(program, right, right.replace("j < m", "j < m - 1"), right.replace("i < n", "i <= n")) == [
        Status.VERIFIED,
        Status.WRONG,
        Status.OUT_OF_BOUNDS,
    ]
    with pytest.raises(InputError, match="missing size: 'n' has no value"):
        outcomes(dataclasses.replace(program, guards=(), parameters=("n", "m")), right)


def test_unknown_first_extent_and_negative_subscripts() -> None:
    """The extent of a pointer comes from what is touched, on both sides of where it points."""
    text = """\
void kernel(float *restrict y, const float *restrict x)
{
#pragma scop
    for (int i = 0; i < 10; i++)
        y[i] = x[i - 3];
#pragma endscop
}
"""
    arrays = (
        array("y", 10, extents=(None,), declaration="float *restrict y"),
        array("x", 10, extents=(None,), declaration="const float *restrict x", const=True),
    )
    program = scop(text, arrays, (statement("{ S0[i] : 0 <= i < 10 }", ("y", "i"), (("x", "i - 3"),), Load(0)),))
    right = "for (int i = 9; i >= 0; i--) y[i] = x[i - 3];"
    found = outcomes(program, right, right + "y[0] += x[7];", right + "y[0] += x[-4];", right + "y[0] = x[6];")
    assert [m.status for m in found] == [
        Status.VERIFIED,
        Status.OUT_OF_BOUNDS,
        Status.OUT_OF_BOUNDS,
        Status.WRONG,
    ]


def test_preprocessor_around_and_inside_the_function() -> None:
    text = """\
#ifdef NEVER
#else
#if 1 /* #endif */
// #endif
static const char *text = "\\
#endif";
void kernel(float x[10], float y[10])
{
#define TWO \\
    2
#pragma unroll
#ifdef TWO
    int i;
#pragma scop
for (i = 0; i < 10; i++)
    y[i] += x[i] * TWO;
#pragma endscop
#endif
}
#endif
#endif
"""
    program = vector(text, declared_outside=("int i",))
    assert statuses(program, RIGHT.replace("2", "TWO"), WRONG) == [Status.VERIFIED, Status.WRONG]


def test_helper_defined_after_its_use() -> None:
    text = f"""\
static float twice(float);
void kernel(float x[10], float y[10])
{{
int i;
{LOOP.replace("x[i] * 2", "twice(x[i])")}}}
static float twice(float x) {{ return 2 * x; }}
int main(void) {{ return 0; }}
"""
    program = vector(text, declared_outside=("int i",))
    assert statuses(program, RIGHT.replace("2 * x[j]", "twice(x[j])"), WRONG) == [Status.VERIFIED, Status.WRONG]


@pytest.mark.parametrize("name", ["-o a.c", "quo\"te$(touch hacked)'.c", "ünïcödé ; rm x.c", "back\\slash.c"])
def test_any_file_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers beside the user's file are found, and nothing in a name is interpreted."""
    folder = tmp_path / f"{name} folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "size.h").write_text("#define TEN 10\n")
    text = f'#include "size.h"\nvoid kernel(float x[TEN], float y[TEN])\n{{\nint i;\n{LOOP}}}\n'
    (folder / name).write_text(text)
    program = vector(text, path=Path(name), declared_outside=("int i",))
    found = outcomes(program, RIGHT, "broken(;")
    assert [m.status for m in found] == [Status.VERIFIED, Status.COMPILE_FAILED]
    assert sorted(path.name for path in folder.iterdir()) == sorted([name, "size.h"])
    with pytest.raises(ToolchainError) as error:
        outcomes(vector(text.replace("* 2", "* two"), path=Path(name), declared_outside=("int i",)), RIGHT)
    assert "'two' undeclared" in error.value.reason
    assert ":7:" in error.value.reason  # the user's line


def test_text_that_is_not_utf8_and_crlf() -> None:
    text = f"/* caf\udce9 */\nvoid kernel(float x[10], float y[10])\n{{\nint i;\n{LOOP}}}\n".replace("\n", "\r\n")
    program = vector(text.replace("scop\r\n", "scop\n", 1), declared_outside=("int i",))
    assert statuses(program, RIGHT, WRONG) == [Status.VERIFIED, Status.WRONG]


def test_linked_object_and_flags(tmp_path: Path) -> None:
    """The user's microkernel from an object file whose name looks like a flag; -D reaches the unit."""
    (tmp_path / "micro.c").write_text("float micro(float x) { return 2 * x; }\n")
    target = tmp_path / "-micro.o"
    run_compiler(["cc", "-fPIC", "-c", "-o", target, tmp_path / "micro.c"])
    text = f"float micro(float);\nvoid kernel(float x[N], float y[N])\n{{\nint i;\n{LOOP}}}\n".replace(
        "x[i] * 2", "micro(x[i])"
    )
    program = vector(text, declared_outside=("int i",), flags=("-DN=10",))
    right = RIGHT.replace("2 * x[j]", "micro(x[j])")
    found = outcomes(program, right, WRONG, toolchain=Toolchain(link=(str(target),)))
    assert [m.status for m in found] == [Status.VERIFIED, Status.WRONG]
    with pytest.raises(ToolchainError, match="undefined reference to `micro'"):
        outcomes(program, right)
    (tmp_path / "micro.c").write_text('#include <stdio.h>\nfloat micro(float x) { puts("x"); return 2 * x; }\n')
    run_compiler(["cc", "-fno-pic", "-no-pie", "-c", "-o", target, tmp_path / "micro.c"])
    with pytest.raises(ToolchainError) as error:
        outcomes(program, right, toolchain=Toolchain(link=(str(target),)))
    assert error.value.hint == "candidates are measured in a shared object: compile what --link names with -fPIC"


def test_shared_library_is_found_at_run_time(tmp_path: Path) -> None:
    (tmp_path / "micro.c").write_text("float micro(float x) { return 2 * x; }\n")
    library = tmp_path / "libmicro.so"
    run_compiler(["cc", "-fPIC", "-shared", "-o", library, tmp_path / "micro.c"])
    text = f"float micro(float);\nvoid kernel(float x[10], float y[10])\n{{\nint i;\n{LOOP}}}\n".replace(
        "x[i] * 2", "micro(x[i])"
    )
    program = vector(text, declared_outside=("int i",))
    for link in ((str(library),), (f"-L{tmp_path}", "-lmicro"), ("-L", str(tmp_path), "-lmicro")):
        found = outcomes(program, RIGHT.replace("2 * x[j]", "micro(x[j])"), toolchain=Toolchain(link=link))
        assert [m.status for m in found] == [Status.VERIFIED]


def test_prologue_and_name_of_the_variant_in_messages() -> None:
    text = f"void kernel(float x[10], float y[10])\n{{\nint i;\n{LOOP}}}\n"
    program = vector(text, declared_outside=("int i",))
    helper = "static float helper(float x) { return 2 * x; }"
    right, broken = RIGHT.replace("2 * x[j]", "helper(x[j])"), "y[0] = helper(;"
    found = outcomes(program, right, broken, prologue=helper)
    assert [m.status for m in found] == [Status.VERIFIED, Status.COMPILE_FAILED]
    assert "variant v1:1:" in found[1].message


def test_text_is_deterministic() -> None:
    program = matmul()
    assert unit_text(program, ORIGINAL, original_code(program)) == unit_text(program, ORIGINAL, original_code(program))


def test_local_arrays_do_not_lose_their_independence() -> None:
    """A local array cannot be aliased; as a parameter of the region function it must still be known not to be."""
    text = f"void kernel(void)\n{{\nfloat x[10], y[10];\nint i;\n{LOOP}}}\n"
    arrays = tuple(array(n, 10, storage=Storage.LOCAL, declaration=f"float {n}[10]") for n in "xy")
    program = vector(text, arrays=arrays, declared_outside=("int i",))
    assert "float y[__restrict__ 10]" in unit_text(program, ORIGINAL, original_code(program))


def test_arrays_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"void kernel(float *x, float *y)\n{{\nint i;\n{LOOP}}}\n"
    huge = array("x", 10, extents=(extent(1 << 45),), declaration="float *x")
    program = vector(text, arrays=(huge, array("y", 10)), declared_outside=("int i",))
    with pytest.raises(InputError, match=r"measuring needs 262144\.0 GiB .* largest array is 'x'"):
        outcomes(program, RIGHT)


def test_missing_size_comes_before_anything_is_run() -> None:
    program = dataclasses.replace(matmul(), parameters=("N",), context=isl.Set("[N] -> { : N > 0 }"))
    with pytest.raises(InputError) as error:
        outcomes(program, "")
    assert error.value.hint is not None
    assert "--size" in error.value.hint
