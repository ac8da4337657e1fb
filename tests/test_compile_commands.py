"""The flags of a file from a compile_commands.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from polydl.base.errors import InputError
from polydl.cli.compile_commands import flags_for, preprocessor_flags
from tests.cli.running import PRESET, compile_c, polydl, refused

SOURCE = """#include <sizes.h>
void twice(real x[N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        x[i] = TIMES(2, x[i]);
#pragma endscop
}
"""


def write(folder: Path, *entries: Mapping[str, object]) -> Path:
    path = folder / "compile_commands.json"
    path.write_text(json.dumps(entries))
    return path


def entry(folder: str, file: str, command: str | list[str]) -> dict[str, object]:
    return {"directory": folder, "file": file, "arguments" if isinstance(command, list) else "command": command}


@pytest.mark.parametrize(
    ("arguments", "flags"),
    [
        (["-DA", "-D", "B=2", "-UC", "-U", "D"], ["-DA", "-DB=2", "-UC", "-UD"]),
        (["-Iinc", "-I", "other", "-I/abs"], ["-I/w/inc", "-I/w/other", "-I/abs"]),
        (["-isystem", "sys", "-iquote", "q"], ["-isystem", "/w/sys", "-iquote", "/w/q"]),
        (["-isystemsys", "--sysroot=root"], ["-isystem", "/w/sys", "--sysroot", "/w/root"]),
        (["-include", "config.h"], ["-include", "config.h"]),
        (["-std=c11", "--std=c99", "-ansi"], ["-std=c11", "--std=c99", "-ansi"]),
        (["-O2", "-g", "-Wall", "-march=native", "-o", "x.o", "-c", "x.c", "-MD", "-MF", "x.d"], []),
        (["-O3", "-DX(a)=a", "-c", "x.c"], ["-DX(a)=a"]),
    ],
)
def test_what_the_preprocessor_reads_is_taken(arguments: list[str], flags: list[str]) -> None:
    assert preprocessor_flags(["cc", *arguments], Path("/w")) == tuple(flags)


def test_a_header_of_the_commands_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "config.h").write_text("")
    assert preprocessor_flags(["cc", "-include", "config.h"], tmp_path) == ("-include", str(tmp_path / "config.h"))


def test_response_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "flags").write_text('-DA "-DB=x y"\n@more')
    (tmp_path / "more").write_text("-DC")
    assert preprocessor_flags(["cc", "@flags", "-DD"], tmp_path) == ("-DA", "-DB=x y", "-DC", "-DD")
    (tmp_path / "more").write_text("@more")
    with pytest.raises(InputError, match="nested"):
        preprocessor_flags(["cc", "@more"], tmp_path)
    with pytest.raises(InputError, match="gone"):
        preprocessor_flags(["cc", "@gone"], tmp_path)


def test_folders_are_relative_to_the_database_and_files_to_them(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "in.c"
    source.write_text("")
    path = write(tmp_path, entry("src", "other.c", "cc -DNO"), entry("build/../src", "./in.c", 'cc -I. -DS="a b"'))
    assert flags_for(source, path) == (f"-I{tmp_path}/build/../src", "-DS=a b")
    assert flags_for(source, tmp_path) == flags_for(source, path)


def test_of_several_commands_the_first_counts_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text("")
    path = write(tmp_path, entry(".", "in.c", "cc -DA"), entry(".", "in.c", "cc -O1 -DA"))
    assert flags_for(tmp_path / "in.c", path) == ("-DA",)
    path = write(tmp_path, entry(".", "in.c", "cc -DA"), entry(".", "in.c", "cc -DB"))
    with pytest.warns(UserWarning, match="different flags"):
        assert flags_for(tmp_path / "in.c", path) == ("-DA",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON"),
        ("{}", "not a list"),
        ('[{"file": "in.c"}]', "entry 0 is no command"),
        ('[{"directory": ".", "file": "in.c", "command": "cc \'"}]', "No closing quotation"),
        ("[]", "does not say how"),
        ('[{"directory": ".", "file": "im.c", "command": "cc"}]', "does not say how"),
    ],
)
def test_a_database_that_does_not_help_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "in.c").write_text(SOURCE)
    (tmp_path / "compile_commands.json").write_text(text)
    with pytest.raises(InputError, match=reason):
        flags_for(tmp_path / "in.c", tmp_path)


def test_the_command_refuses_it_too(tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text(SOURCE)
    write(tmp_path, entry(".", "other.c", "cc"))
    assert "does not say how in.c is compiled" in refused(tmp_path, "rank", "in.c", "--compile-commands", ".")


def test_the_nearest_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, entry(".", "inn.c", "cc"))
    with pytest.raises(InputError) as caught:
        flags_for(tmp_path / "in.c", tmp_path)
    assert "did you mean 'inn.c'?" in (caught.value.hint or "")
    with pytest.raises(InputError, match="no compilation database"):
        flags_for(tmp_path / "in.c", tmp_path / "none.json")


def test_commands_read_a_file_as_the_build_does(tmp_path: Path) -> None:
    for name in ("src", "inc", "pre"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "in.c").write_text(SOURCE)
    (tmp_path / "inc" / "sizes.h").write_text("#ifndef N\n#define N 640\n#endif\n")
    (tmp_path / "pre" / "types.h").write_text("typedef float real;\n")
    flags = ["-isystem", "../inc", "-include", "../pre/types.h", "-DTIMES(a, b)=((a) * (b))", "-std=c99"]
    write(tmp_path, entry("src", "in.c", ["cc", *flags, "-O3", "-c", "in.c"]))
    file = ("src/in.c", "--compile-commands", ".", *PRESET)
    for command in ("rank", "analyze"):
        assert polydl(tmp_path, command, *file[:5]).code == 0
    outcome = polydl(tmp_path, "optimize", *file, "-o", "out.c", "--no-run", "--depfile", "out.d")
    assert outcome.code == 0, outcome.stderr
    assert (tmp_path / "out.d").read_text().count("compile_commands.json") == 2, "as a prerequisite, and on its own"
    compile_c(tmp_path / "src", ["../out.c"], "../out.o", *flags, "-c", "-fopenmp", "-Wno-unused-macros")
    run = polydl(tmp_path, "optimize", *file[:3], "-o", "timed.c", "--threads", "1", "--top-k", "1")
    assert run.code == 0, run.stderr
