"""Bad input, end to end: one message with its place, its reason and a way out; the right exit code; no file touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import EXAMPLES, PRESET, REJECT, environment, listing, polydl, refused
from tests.compiling import run_compiler

SMALL = ("-D", "M=16", "-D", "N=16", "-D", "K=16", *PRESET)
MATMUL = (EXAMPLES / "matmul.c").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good input and an older output."""
    (tmp_path / "matmul.c").write_text(MATMUL)
    (tmp_path / "out.c").write_text("/* an older output */\n")
    return tmp_path


# ---------------------------------------------------------------- the C file

C_FILES = {
    "not_c": "not C",
    "no_scop": "has no loop",
    "unclosed_scop": "scop",
    "non_affine_subscript": "not affine",
    "non_affine_bound": "not affine",
    "data_dependent_condition": "data",
    "jumps": "'goto' leaves the structured control flow",
    "loop_headers": "",
    "unknown_call": "call",
    "microkernel_other_array": "touch other data than the call's arguments name",
    "unknown_pragma_word": "",
    "missing_header": "preprocessor",
    "undeclared": "not declared",
}


@pytest.mark.parametrize("name", C_FILES)
def test_c_files(folder: Path, name: str) -> None:
    text = (REJECT / f"{name}.c").read_text()
    (folder / "bad.c").write_text(text)
    shown = refused(folder, "optimize", "bad.c", "-o", "out.c", "--json", *PRESET)
    assert C_FILES[name] in shown
    message = r"^bad\.c:(\d+):(\d+): error: \S.*\n    (.*)\n    ([ \t]*)\^~*\n  help: \S"
    places = re.findall(message, shown, re.MULTILINE)
    announced = re.findall(r"^// expect: (\d+):(\d+): ", text, re.MULTILINE)
    assert [(p[0], p[1]) for p in places] == announced, shown
    lines = text.split("\n")
    for line, column, source, gap in places:
        assert source == lines[int(line) - 1]
        assert len(gap) == int(column) - 1


def test_strict_alias(folder: Path) -> None:
    shutil.copy(REJECT / "strict_alias.c", folder / "alias.c")
    assert "may overlap" in refused(folder, "optimize", "alias.c", "-o", "out.c", "--strict-alias", *PRESET)
    allowed = polydl(folder, "optimize", "alias.c", "-o", "out.c", "--no-run", *PRESET)
    assert allowed.code == 0
    assert "assumed: " in allowed.stdout
    assert "assumed: " in (folder / "out.c").read_text()


CONTENTS = {
    "empty": (b"", "has no scop"),
    "binary": (b"\x7fELF\0\0\1", "binary file"),
    "not text": (b"\xff\xfe" * 500, "not C"),
    "cut off": (MATMUL[: MATMUL.rindex("}")].encode(), "not C"),
    "deeply nested": (MATMUL.replace("A[i][k]", "(" * 2000 + "A[i][k]" + ")" * 2000).encode(), "too deeply"),
    "many errors": (b"#pragma scop\n" * 3000, "more errors"),
    "includes itself": (b'#include "bad.c"\n' + MATMUL.encode(), "nested"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents(folder: Path, name: str) -> None:
    content, reason = CONTENTS[name]
    (folder / "bad.c").write_bytes(content)
    shown = refused(folder, "optimize", "bad.c", "-o", "out.c", *SMALL)
    assert re.match(r"bad\.c:\d+:\d+: error: ", shown)
    assert reason in shown
    assert len(shown) < 20_000


def test_long_file(folder: Path) -> None:
    (folder / "long.c").write_text(f"/* {'x' * 79}\n{('y' * 79 + chr(10)) * 62_500}*/\n{MATMUL}")
    assert (folder / "long.c").stat().st_size > 5_000_000
    outcome = polydl(folder, "optimize", "long.c", "-o", "out.c", "--no-run", *SMALL)
    assert outcome.code == 0
    assert (folder / "out.c").read_text().count("y" * 79) == 62_500


def test_no_such_file_and_folder(folder: Path) -> None:
    assert refused(folder, "optimize", "nosuch.c").startswith("nosuch.c:1:1: error: no such file")
    (folder / "sub.c").mkdir()
    assert "this is a folder" in refused(folder, "rank", "sub.c", "--json")
    assert "folder" in refused(folder, "analyze", "")


# ---------------------------------------------------------------- names of files

NAMES = [
    b"with space.c",
    b"q'uo\"te.c",
    b";rm -rf .;.c",
    b"$(touch bad).c",
    b"-o.c",
    b"new\nline.c",
    b"back\\slash.c",
    b"*.c",
    b"[red]x[.c",
    b"\x1b[31m.c",
    b"\xff\xfe.c",
    "\u202e文.c".encode(),
    b"noextension",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name))
def test_names(tmp_path: Path, name: bytes) -> None:
    """Any name works, as input and as output, and stands harmless in messages and in the output's header."""
    source = Path(os.fsdecode(name))
    (tmp_path / source).write_text(MATMUL)
    output = b"./out/" + name
    (tmp_path / "out").mkdir()
    before = set(listing(tmp_path))
    outcome = polydl(tmp_path, "optimize", "--no-run", *SMALL, "-o", output, "--", name)
    assert outcome.code == 0, outcome.stderr
    assert set(listing(tmp_path)) - before == {f"out/{name.decode('utf-8', 'backslashreplace')}"}
    assert "\x1b" not in outcome.stdout
    written = tmp_path / "out" / source
    flags = ["-x", "c", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-"]
    run_compiler(["cc", *flags], text=written.read_text())


def test_odd_names_in_messages(tmp_path: Path) -> None:
    name = "a\x1b[31m\nb.c"
    (tmp_path / name).write_text(MATMUL.replace("A[i][k]", "nowhere"))
    shown = refused(tmp_path, "rank", name)
    assert shown.startswith("a?[31m?b.c:18:28: error: ")


# ---------------------------------------------------------------- the output's place


@pytest.mark.parametrize("name", ["matmul.c", "./matmul.c", "sub/../matmul.c", "soft.c", "hard.c", "chain.c"])
def test_output_is_the_input(folder: Path, name: str) -> None:
    (folder / "sub").mkdir()
    (folder / "soft.c").symlink_to("matmul.c")
    (folder / "chain.c").symlink_to("soft.c")
    os.link(folder / "matmul.c", folder / "hard.c")
    for source in ("matmul.c", "soft.c"):
        assert "would replace the input" in refused(folder, "optimize", source, "-o", name, "--no-run", *SMALL)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("nosuch/out.c", "there is no folder"),
        ("matmul.c/out.c", "annot write"),
        ("sub", "is a folder"),
        ("sub/", "folder"),
        ("new/", "folder"),
        ("", "no name"),
        ("ring", "ymbolic links"),
        ("x" * 300, "File name too long"),
    ],
)
def test_output_cannot_be(folder: Path, output: str, reason: str) -> None:
    (folder / "sub").mkdir()
    (folder / "ring").symlink_to("ring")
    shown = refused(folder, "optimize", "matmul.c", "-o", output, "--no-run", *SMALL)
    assert reason in shown
    assert "  help: " in shown


def test_output_through_a_link(folder: Path) -> None:
    """A link stays one; the file it leads to is written, with the permissions that it has."""
    (folder / "link.c").symlink_to("out.c")
    (folder / "out.c").chmod(0o640)
    assert polydl(folder, "optimize", "matmul.c", "-o", "link.c", "--no-run", *SMALL).code == 0
    assert (folder / "link.c").is_symlink()
    assert "Generated by polydl" in (folder / "out.c").read_text()
    assert (folder / "out.c").stat().st_mode & 0o777 == 0o640


def test_no_room(folder: Path) -> None:
    """A full device, and a file that may not grow: the old file stays, no half of a new one appears."""
    assert "No space left" in refused(folder, "optimize", "matmul.c", "-o", "/dev/full", "--no-run", *SMALL, code=1)
    assert Path("/dev/full").is_char_device()
    before = listing(folder)
    limited = (
        "import resource, runpy, signal, sys;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "sys.argv[0] = 'polydl'; runpy.run_module('polydl', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-B", "-c", limited, "optimize", "matmul.c", "-o", "out.c", "--no-run", *SMALL],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "File too large" in done.stderr) == (1, True), done.stderr
    assert listing(folder) == before


LESSER_ROOT = """
import ctypes, os, sys
for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH leave the bounding set (PR_CAPBSET_DROP)
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-B", "-m", "polydl", *sys.argv[1:]])
"""
"""Runs polydl as a user for whom permissions hold, also when the tests are run by root."""


def test_permissions(folder: Path) -> None:
    """A file that may not be read, a folder that may not be written."""
    (folder / "secret.c").write_text(MATMUL)
    (folder / "secret.c").chmod(0)
    locked = folder / "locked"
    locked.mkdir()
    shutil.copy(folder / "matmul.c", locked)
    locked.chmod(0o555)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", LESSER_ROOT, "optimize", *arguments, *SMALL]
        return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)

    for arguments, reason in (
        (["secret.c", "-o", "out.c"], "secret.c:1:1: error: the file cannot be read: Permission denied"),
        (["matmul.c", "-o", "locked/out.c"], "cannot write locked/out.c: permission denied"),
        (["locked/matmul.c"], "cannot write locked/matmul.polydl.c: permission denied"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
    assert run("locked/matmul.c", "--no-run").returncode == 0
    assert [p.name for p in locked.iterdir()] == ["matmul.c"]
    locked.chmod(0o755)


# ---------------------------------------------------------------- options

OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "size without value": (("--size", "N"), "not NAME=INTEGER"),
    "size not a number": (("--size", "N=many"), "not NAME=INTEGER"),
    "size without name": (("--size", "=4"), "not NAME=INTEGER"),
    "size of an odd name": (("--size", "N;rm=4"), "not NAME=INTEGER"),
    "size twice": (("--size", "N=4,N=5"), "N is 4 and 5"),
    "size of an unknown name": (("--size", "Q=4"), "'Q' is not an integer parameter"),
    "define of an odd name": (("-D", "1N=4"), "not NAME or NAME=VALUE"),
    "define of no name": (("-D", "=4"), "not NAME or NAME=VALUE"),
    "define with a command": (("-D", "N;touch x=4"), "not NAME or NAME=VALUE"),
    "undefine of an odd name": (("-U", "a b"), "not a macro name"),
    "define that is no number": (("-D", "N=many"), "'many' is not declared"),
    "define beyond any type": (("-D", "N=99999999999999999999"), "does not fit"),
    "machine file missing": (("--machine", "nosuch.toml"), "No such file"),
    "machine preset misspelt": (("--machine", "epyc-zen55"), "did you mean 'epyc-zen5'?"),
    "machine file not TOML": (("--machine", "bad.toml"), "bad.toml:1:5: error: not TOML"),
    "machine file with an unknown key": (("--machine", "key.toml"), "key.toml:2:1: error: "),
    "ranker misspelt": (("--ranker", "trafic"), "did you mean 'traffic'?"),
    "space unknown": (("--space", "nosuch"), "choose one of small, default, wide"),
    "space misspelt": (("--space", "widee"), "did you mean 'wide'?"),
    "function unknown": (("--function", "nosuch"), "functions of the file: matmul"),
    "link file missing": (("--link", "nosuch.o"), "there is no file nosuch.o"),
    "quotation mark open": (("--cflags='-O2",), "No closing quotation"),
    "no variants": (("--top-k", "0"), "--top-k"),
    "no threads": (("--threads", "0"), "--threads"),
    "negative seed": (("--seed", "-1"), "--seed"),
    "no time": (("--timeout", "0"), "--timeout"),
    "endless time": (("--timeout", "inf"), "timeout"),
    "not a number of seconds": (("--timeout", "nan"), "timeout"),
    "unknown option": (("--nosuch",), "--nosuch"),
    "two files": (("other.c",), "other.c"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(folder: Path, name: str) -> None:
    (folder / "bad.toml").write_text("x = = 3\n")
    (folder / "key.toml").write_text('base = "epyc-zen4"\nnosuch = 1\n')
    arguments, reason = OPTIONS[name]
    shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", "--json", *arguments)
    assert reason in shown


# ---------------------------------------------------------------- the compiler


def test_compiler_missing(folder: Path) -> None:
    for name in ("nosuch", "./matmul.c", ""):
        shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", "--cc", name, "--json", code=1)
        assert f"the C compiler '{name}'" in shown
        assert "--cc" in shown


def test_compiler_fails(folder: Path) -> None:
    shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", *SMALL, "--cflags=-fnosuchflag", code=1)
    assert "unrecognized command-line option '-fnosuchflag'" in shown or "unknown argument: '-fnosuchflag'" in shown
    shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", *SMALL, "--ldflags=-lnosuch", code=1)
    assert "-lnosuch" in shown
    assert "--ldflags" in shown


def test_sizes_that_no_array_has(folder: Path) -> None:
    for size in ("0", "-5"):
        shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", *SMALL, "-D", f"N={size}", code=None)
        assert ("array 'C' has no elements" if size == "0" else "dimension 2 of 'C' has the size -5") in shown


def test_input_that_compilers_refuse(folder: Path) -> None:
    (folder / "bad.c").write_text("void f(float *restrict p, float q) {\n  for (int i = 0; i < 9; i++) p[i] ^= q;\n}\n")
    for more in ((), ("--no-run",)):
        shown = refused(folder, "optimize", "bad.c", "-o", "out.c", *PRESET, *more, code=1)
        assert "'cc' does not compile the " in shown
        assert "output does" not in shown
        assert "invalid operands to binary ^" in shown


def test_compiler_that_does_nothing(folder: Path) -> None:
    shown = refused(folder, "optimize", "matmul.c", "-o", "out.c", *SMALL, "--cc", "true", code=1)
    assert "'true -E' printed no C" in shown


TWO_REGIONS = """\
void good(int n, float x[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        x[i] = 2 * x[i];
#pragma endscop
}
void bad(int n, float x[n])
{
#pragma scop
    for (int p = 2; p * p < n; p++)
        x[p] = 2 * x[p];
#pragma endscop
}
"""


def test_a_refused_region_does_not_cost_the_file(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text(TWO_REGIONS)
    told = {"PYTHONWARNINGS": "default"}
    done = polydl(tmp_path, "optimize", "two.c", "--no-run", "-o", "out.c", "--space", "small", *PRESET, **told)
    assert done.code == 0, done.stderr
    assert "two.c:11:21: warning: the loop bound is not affine" in done.stderr
    assert "the region stays as it is written" in done.stderr
    assert "help: compute in front of the loop where it ends" in done.stderr
    text = (tmp_path / "out.c").read_text()
    assert text.startswith("/* Generated by polydl")
    assert TWO_REGIONS[TWO_REGIONS.index("void bad") :] in text
    assert TWO_REGIONS[: TWO_REGIONS.index("void bad")] not in text
    run_compiler(["gcc", "-c", "-o", str(tmp_path / "out.o"), str(tmp_path / "out.c")])
    ranked = polydl(tmp_path, "rank", "two.c", "--space", "small", *PRESET, **told)
    assert ranked.code == 0 and "two.c:11:21: warning" in ranked.stderr


def test_strict_wants_every_region(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text(TWO_REGIONS)
    done = polydl(tmp_path, "optimize", "two.c", "--no-run", "--strict", "-o", "out.c", *PRESET)
    assert done.code == 2
    assert "two.c:11:21: error: the loop bound is not affine" in done.stderr
    assert not (tmp_path / "out.c").exists()


def test_regions_that_are_all_refused_are_errors(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text(TWO_REGIONS[TWO_REGIONS.index("void bad") :])
    done = polydl(tmp_path, "optimize", "one.c", "--no-run", "-o", "out.c", *PRESET)
    assert done.code == 2 and "one.c:4:21: error:" in done.stderr
