"""Compiles C for all tests. Equal C is compiled once, in this run and in later ones.

What a compiler made is kept by content, in a folder of the user: of the texts and of what they include, of objects,
flags, compiler and processor. Programs are run anew all the same, since a race shows itself only where it runs.
polydl's own compilers go the same way (`apply`).

A command is understood word by word. One with a word that is not known here is run as it stands, as is a compiler that
is a script: a wrapper of --avx2, or of a test that counts what is compiled.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import platformdirs
import pytest

from polydl.measure import compiler as polydl_compile
from tests import precompiled

FOLDER = platformdirs.user_cache_path("polydl-tests") / "compiled"
MOST_BYTES = 1 << 30
"""What the folder may hold when a run of tests ends."""

Word = str | os.PathLike[str]


class CompilerFailed(AssertionError):
    """A compiler refused a text; the message holds the command, what it printed, and the text."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a compiler or a program printed."""

    returncode: int
    """Negative for a signal."""
    stdout: str
    stderr: str


def run_compiler(
    command: Sequence[Word], cwd: Path | None = None, *, text: str | None = None, check: bool = True
) -> Printed:
    """Run the command of a compiler, or take what the same made before. `text` is its standard input.

    Raises CompilerFailed, unless `check` is False.
    """
    request = understood(command, cwd or Path.cwd(), text)
    printed = None if request is None else _taken(request)
    if printed is None:
        begun = quick(command, request)
        printed = run_program(begun, cwd, text=text, check=False)
        if printed.returncode and begun is not command:
            printed = run_program(command, cwd, text=text, check=False)
        if request is not None:
            _keep(request, printed)
    if check and printed.returncode:
        words = [os.fspath(word) for word in command]
        texts = [path.read_text(errors="replace") for word in words if (path := (cwd or Path()) / word).suffix == ".c"]
        raise CompilerFailed("\n".join([" ".join(words), printed.stdout, printed.stderr, *texts]))
    return printed


def run_program(
    command: Sequence[Word],
    cwd: Path | None = None,
    *,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> Printed:
    """Run a program that was built, with arguments. Raises AssertionError where it fails, unless `check` is False."""
    words = [os.fspath(word) for word in command]
    done = subprocess.run(words, cwd=cwd, input=text, env=env, capture_output=True, text=True, timeout=600, check=False)
    printed = Printed(done.returncode, done.stdout, done.stderr)
    assert not (check and printed.returncode), f"{words[0]} ended with {printed}"
    return printed


def apply(patch: pytest.MonkeyPatch, *, quick: bool = False) -> None:
    """Let polydl's compilers take what is known, until the patch is undone; `quick`: and optimize little."""
    patch.setattr(polydl_compile, "_run_compiler", _quickly if quick else _for_polydl)


def quick(command: Sequence[Word], request: Request | None) -> Sequence[Word]:
    """The command with a precompiled header, where its texts include one of intrinsics and it makes no difference."""
    compiler = os.fspath(command[0])
    if request is None or request.header is None or "gcc" not in Path(shutil.which(compiler) or "").resolve().name:
        return command
    if "-E" in request.flags or any(os.fspath(word).endswith(".cc") for word in command):
        return command
    names = [name.decode() for name in request.defined]
    more = precompiled.words(compiler, request.parts[0], request.flags, request.header, names)
    return [command[0], *more, *command[1:]]


def trim(most: int = MOST_BYTES) -> None:
    """Forget what was not used for longest, as far as more than `most` bytes are kept."""
    precompiled.trim()
    files = []
    for path in FOLDER.glob("*/*"):
        try:
            files.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        except FileNotFoundError:
            continue  # another run trims as well
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= most:
            return
        path.unlink(missing_ok=True)
        left -= size


_polydl_runs = polydl_compile._run_compiler


def _for_polydl(
    arguments: Sequence[Word], timeout: float, live: polydl_compile.LiveProcesses | None, temporary: str
) -> polydl_compile.Compilation:
    try:
        request = understood(arguments, Path.cwd(), None)
    except FileNotFoundError:
        request = None  # the current folder is gone
    known = None if request is None else _taken(request)
    if known is not None:
        return polydl_compile.Compilation(True, known.stdout, polydl_compile._diagnostics(known.stdout))
    begun = quick(arguments, request)
    done = _polydl_runs([os.fspath(word) for word in begun], timeout, live, temporary)
    if not done.ok and begun is not arguments:
        done = _polydl_runs(arguments, timeout, live, temporary)
    if request is not None and done.ok:
        _keep(request, Printed(0, done.output, ""))
    return done


def _quickly(
    arguments: Sequence[Word], timeout: float, live: polydl_compile.LiveProcesses | None, temporary: str
) -> polydl_compile.Compilation:
    """Compile libraries and objects with little optimization, and programs as asked: what these are for is to show what
    a compiler makes of its flags (`compiler_faults`)."""
    if not {"-shared", "-c", "-S", "-fsyntax-only", "c-header"}.intersection(map(os.fspath, arguments)):
        return _for_polydl(arguments, timeout, live, temporary)
    little = ("-Og", "-fstrict-aliasing")
    words = [more for word in arguments for more in (little if word in ("-O1", "-O3") else (word,))]
    return _for_polydl(words, timeout, live, temporary)


@dataclass(slots=True)
class Request:
    """A command whose effect is known: it reads files and writes one."""

    cwd: Path
    output: Path | None = None
    """What it writes; None: it only prints."""
    paths: list[str] = field(default_factory=list)
    """Paths that the compiler may print, as they were given."""
    quoted: list[Path] = field(default_factory=list)
    """Folders of -iquote."""
    angled: list[Path] = field(default_factory=list)
    """Folders of -I."""
    after: list[Path] = field(default_factory=list)
    """Folders of -idirafter."""
    parts: list[bytes] = field(default_factory=list)
    """What decides what is made."""
    flags: list[str] = field(default_factory=list)
    """Words that say how a text is compiled."""
    header: bytes | None = None
    """The header of intrinsics that the texts include."""
    defined: set[bytes] = field(default_factory=set)
    """Macros that the texts and the command define."""

    @property
    def key(self) -> str:
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()[:40]


_FREE = re.compile(
    r"-O[0-3s]?|-c|-S|-E|-P|-w|-shared|-pedantic|-fsyntax-only|-dM|-xc|-nostdlib"
    r"|-W(?!l,|p,|a,)[\w=+-]*|-std=[\w+]+|-m[\w=.+-]+|-[DU].+|-l\w+|-f(?!dump|plugin|profile|save|opt-info\S*=)[\w=,+-]*"
)
"""Words that say by themselves what they mean."""
_WITH_VALUE = ("-o", "-iquote", "-idirafter", "-I", "-Xlinker", "-x")
_NOT_KNOWN = re.compile(
    rb"__(TIME|DATE|TIMESTAMP)__|incbin|#\s*embed|__has_include\s*\(\s*\"|^[ \t]*#[ \t]*include(_next)?[ \t]+[^\"<\s]",
    re.MULTILINE,
)
"""What a text may hold so that its content does not say what is compiled."""
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]*([\"<])([^\">\n]+)[\">]", re.MULTILINE)
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LC_ALL", "LANG")


def understood(command: Sequence[Word], cwd: Path, text: str | None) -> Request | None:
    """What a command does; None where that is not known."""
    words = [os.fspath(word) for word in command]
    compiler = _compiler(shutil.which(words[0]) or words[0])
    if compiler is None:
        return None
    request = Request(cwd, parts=[compiler, repr([os.environ.get(name) for name in _VARIABLES]).encode()])
    inputs: list[Path] = []
    rest = iter(words[1:])
    for word in rest:
        flag = None if word == "-xc" else next((f for f in _WITH_VALUE if word.startswith(f)), None)
        if flag is not None:
            value = word.removeprefix(flag) or next(rest, "")
            if not _with_value(request, flag, value):
                return None
        elif word == "-":
            request.parts.append(b"- " + (text or "").encode())
        elif _FREE.fullmatch(word):
            request.parts.append(word.encode())
            if word.startswith(("-D", "-U")):
                request.defined.add(re.split(r"[=(]", word[2:])[0].encode())
            elif not word.startswith(("-l", "-c", "-shared")):
                request.flags.append(word)
        elif (cwd / word).is_file() and (cwd / word).suffix in (".c", ".o", ".cc"):
            request.parts.append(b"input" + (cwd / word).suffix.encode())
            request.paths.append(word)
            inputs.append(cwd / word)
        else:
            return None
    if request.output is None and not {"-E", "-fsyntax-only"} & set(words):
        if "-c" not in words or len(inputs) != 1:
            return None
        request.output = cwd / f"{inputs[0].stem}.o"
    if request.output == Path("-"):
        request.output = None
    seen: set[Path] = set()
    known = all(_read(path, request, seen) for path in inputs)
    return request if known and _scanned((text or "").encode(), cwd, request, seen) else None


def _with_value(request: Request, flag: str, value: str) -> bool:
    """Take a flag with a value. False where it is not known what it means."""
    request.parts.append(flag.encode())
    if flag == "-x":
        request.parts.append(value.encode())
        return value == "c"
    if flag == "-Xlinker":
        request.parts.append(value.encode())
        return value in ("-Bsymbolic", "-zdefs")
    if flag == "-o":
        request.output = Path("-") if value in ("-", "/dev/null") else request.cwd / value
        request.parts.append(b"printed" if value == "-" else b"file")
    else:
        folders = {"-I": request.angled, "-iquote": request.quoted, "-idirafter": request.after}[flag]
        folders.append(request.cwd / value)
    request.paths.append(value)
    return bool(value)


def _read(path: Path, request: Request, seen: set[Path]) -> bool:
    """Add what a file holds and includes. False where its content does not say what is compiled."""
    if path in seen:
        return True
    seen.add(path)
    content = path.read_bytes()
    request.parts.append(content)
    return path.suffix == ".o" or _scanned(content, path.parent, request, seen)


def _scanned(content: bytes, folder: Path, request: Request, seen: set[Path]) -> bool:
    """Add what a text includes. Headers of the system belong to the compiler."""
    if _NOT_KNOWN.search(content):
        return False
    request.defined.update(_DEFINE.findall(content))
    for opening, name in _INCLUDE.findall(content):
        near = [folder, *request.quoted] if opening == b'"' else []
        places = [*near, *request.angled, *request.after]
        found = next((one / name.decode() for one in places if (one / name.decode()).is_file()), None)
        request.parts.append(b"include" if found else b"of the system")
        if found is None and name in precompiled.HEADERS:
            request.header = name
        if found is not None:
            request.paths.append(str(found))
            if not _read(found, request, seen):
                return False
    return True


@cache
def _compiler(path: str) -> bytes | None:
    """Which compiler that is, on which processor; None for what is no compiler: a script."""
    real = Path(path).resolve()
    if not real.is_file():
        return None
    with real.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
    stamps = [(p.stat().st_size, p.stat().st_mtime_ns) for p in (real, Path("/usr/include/stdlib.h")) if p.exists()]
    information = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    processor = re.findall(r"^(?:model name|model|stepping|flags|cache size)\s*:.*", information, re.MULTILINE)
    return repr((str(real), stamps, processor)).encode()


def _files(request: Request) -> tuple[Path, Path]:
    key = request.key
    return FOLDER / key[:2] / f"{key}.out", FOLDER / key[:2] / f"{key}.json"


def _taken(request: Request) -> Printed | None:
    """What was kept, with the output in its place; None where nothing was."""
    output, said = _files(request)
    try:
        printed = json.loads(said.read_text(encoding="utf-8"))
        if request.output is not None:
            request.output.unlink(missing_ok=True)  # it may be a library that this process has loaded
            shutil.copyfile(output, request.output)
            request.output.chmod(output.stat().st_mode)
            os.utime(output)
        os.utime(said)
    except FileNotFoundError:
        return None
    return Printed(0, *(_put(request, one) for one in printed))


def _keep(request: Request, printed: Printed) -> None:
    """Keep what was made, unless it was refused, or a message names a place that another run will not have."""
    said = [_cut(request, one) for one in (printed.stdout, printed.stderr)]
    if printed.returncode or any(str(place) in one for one in said for place in (request.cwd, tempfile.gettempdir())):
        return
    made = None if request.output is None else request.output
    output, message = _files(request)
    output.parent.mkdir(parents=True, exist_ok=True)
    if made is not None:
        if not made.is_file():
            return
        _write(output, made.read_bytes(), made.stat().st_mode)
    _write(message, json.dumps(said).encode(), 0o644)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Whole or not at all, whoever writes the same."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(name).chmod(mode & 0o777)
    Path(name).replace(path)


def _cut(request: Request, text: str) -> str:
    """A message with numbers in place of paths."""
    for number, path in sorted(enumerate(request.paths), key=lambda one: -len(one[1])):
        text = text.replace(path, f"\0{number}\0") if len(path) > 2 else text
    return text


def _put(request: Request, text: str) -> str:
    return re.sub("\0(\\d+)\0", lambda m: request.paths[int(m[1])], text)
