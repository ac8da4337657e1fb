"""Runs the C compiler: on candidates in parallel, and to check an output file. No shell is involved."""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from polydl.base.errors import ToolchainError
from polydl.base.records import dataclass
from polydl.base.resources import header_flags
from polydl.frontend.text.linkage import as_c
from polydl.measure.measurement import Toolchain
from polydl.model.scop import Source

COMPILE_SECONDS = 20.0
"""Of processor time that a compiler gets for one text, at most. What takes longer gives way to something plainer."""
_WAITS = 3.0
"""Times as long that is waited for it, where other programs use the processors too or it does nothing."""
_MESSAGE_LINES = 12
"""Lines of compiler output in an error message."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message of the compiler."""

    severity: str
    """`error`, `fatal error`, `warning` or `note`."""
    line: int
    """1-based; 0 when the compiler gives none."""
    column: int
    message: str
    """With the option that controls it: `unused variable 'x' [-Wunused-variable]`."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """The result of one compiler run."""

    ok: bool
    output: str
    """Everything the compiler printed, or why it was stopped."""
    diagnostics: tuple[Diagnostic, ...] = ()
    late: bool = False
    """Whether it was stopped because it took too long."""

    @property
    def message(self) -> str:
        """The first error and the lines after it, a dozen at most."""
        lines = self.output.splitlines()
        telling = re.compile(r"error: (?!ld returned)|undefined reference|ld: ")
        first = next((i for i, line in enumerate(lines) if telling.search(line)), 0)
        kept = lines[first : first + _MESSAGE_LINES]
        return "\n".join(kept) or "the compiler failed without a message"


def find_compiler(toolchain: Toolchain) -> str:
    """Absolute path of the compiler. Raises ToolchainError when there is none."""
    path = shutil.which(toolchain.cc)
    if path is None:
        raise ToolchainError(
            f"the C compiler '{toolchain.cc}' was not found",
            hint="install one (Debian: apt install gcc), or name it with --cc or the variable CC",
        )
    return str(Path(path).absolute())


def unit_flags(source: Source) -> list[str]:
    """Flags with which a file in another folder compiles as the user's file does: its -D and -I, and its folder. Then
    that of polydl.h."""
    return [*source.preprocessor_flags, "-iquote", str(source.path.absolute().parent), *header_flags()]


def link_flags(toolchain: Toolchain) -> list[str]:
    """The flags that link the user's objects and libraries, with run paths to their folders, since candidates run
    without LD_LIBRARY_PATH."""
    inputs, folders = [], []
    for item in toolchain.link:
        path = Path(item)
        if path.is_file():
            inputs.append(str(path.absolute()))  # absolute: a name may start with a dash
            if ".so" in path.suffixes:
                folders.append(str(path.absolute().parent))
        else:
            inputs.append(item)
    flags = list(toolchain.ldflags)
    for flag, following in zip([*toolchain.link, *flags], [*toolchain.link, *flags, ""][1:], strict=True):
        if flag == "-L":
            folders.append(str(Path(following).absolute()))
        elif flag.startswith("-L"):
            folders.append(str(Path(flag[2:]).absolute()))
    run_paths = [part for folder in dict.fromkeys(folders) for part in ("-Xlinker", "-rpath", "-Xlinker", folder)]
    return inputs + flags + run_paths


class CompilerTooSlow(ToolchainError):
    """A compiler was stopped because it took too long."""


def run_compiler(
    arguments: Sequence[str | Path], timeout: float | None = None, live: LiveProcesses | None = None
) -> Compilation:
    """Run a compiler, and stop it and its children when one of them took `timeout` seconds of a processor (unless it is
    given `COMPILE_SECONDS`), or all of them thrice as long by the clock: so that what is compiled does not depend on
    what else the machine does. Messages are in the C locale.

    Temporary files go to a folder that is removed, since a compiler that is killed does not remove them.
    """
    with tempfile.TemporaryDirectory(prefix="polydl-cc-") as temporary:
        return _run_compiler(arguments, COMPILE_SECONDS if timeout is None else timeout, live, temporary)


def _run_compiler(
    arguments: Sequence[str | Path], timeout: float, live: LiveProcesses | None, temporary: str
) -> Compilation:
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C", "TMPDIR": temporary},
        start_new_session=True,
    )
    if live is not None:
        live.add(process.pid)
    late = Compilation(False, f"error: it takes the compiler over {timeout:g} s", late=True)
    most = math.ceil(timeout)
    try:
        with suppress(ProcessLookupError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most + 1))
        output, _ = process.communicate(timeout=_WAITS * timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return late
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    finally:
        if live is not None:
            live.discard(process.pid)
    text = output.decode(errors="replace")
    if process.returncode and (process.returncode == -signal.SIGXCPU or _TOO_SLOW.search(text)):
        return late
    return Compilation(process.returncode == 0, text, _diagnostics(text))


_TOO_SLOW = re.compile(r"CPU time limit exceeded")
"""What a compiler says of a program that it starts for the work, and that took too long."""


class LiveProcesses:
    """The compilers that run at the moment; an interrupted measurement ends them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._closed = False

    def add(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            if self._closed:
                os.killpg(group, signal.SIGKILL)

    def discard(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)

    def kill(self) -> None:
        """End all of them, and each one that is added later."""
        with self._lock:
            self._closed = True
            for group in self._groups:
                os.killpg(group, signal.SIGKILL)


def compile_all(
    jobs: Sequence[Sequence[str | Path]],
    workers: int,
    timeout: float,
    done: Callable[[int], None],
    left_out: Callable[[int], bool] = lambda job: False,
) -> list[Compilation | None]:
    """Run several compilers, `workers` at a time, with results in the order of the jobs. `done(finished)` is called
    with the number of finished jobs each time one finishes; `left_out(job)` when one would begin: None is the result of
    those for which it holds."""
    results: dict[int, Compilation | None] = {}
    live = LiveProcesses()

    def begun(number: int) -> Compilation | None:
        return None if left_out(number) else run_compiler(jobs[number], timeout, live)

    with ThreadPoolExecutor(max(1, workers)) as pool:
        futures = {pool.submit(begun, i): i for i in range(len(jobs))}
        try:
            for future in as_completed(futures):
                results[futures[future]] = future.result()
                done(len(results))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            live.kill()
            raise
    return [results[i] for i in range(len(jobs))]


_DIAGNOSTIC = re.compile(
    r"^(?P<file>.*?):(?:(?P<line>\d+):)?(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)$"
)


def _diagnostics(output: str) -> tuple[Diagnostic, ...]:
    found = (match for line in output.splitlines() if (match := _DIAGNOSTIC.match(line)))
    return tuple(Diagnostic(m["severity"], int(m["line"] or 0), int(m["column"] or 0), m["message"]) for m in found)


def check_compiles(
    text: str,
    toolchain: Toolchain,
    source: Source,
    warnings: Iterable[str] = ("-Wall", "-Wextra"),
    name: str = "output.c",
    *,
    object_code: bool = True,
) -> Compilation:
    """Compile a C text to an object, as if it were a file beside `source`, and return what the compiler prints.

    It is hardly optimized, for whether it compiles does not depend on that, and of long texts that is most of the time.
    With object_code=False the compiler only reads it. Its messages call the file
    `name`. `text` is encoded as utf-8 with surrogateescape. Raises ToolchainError when there is no compiler.
    """
    compiler = find_compiler(toolchain)
    with tempfile.TemporaryDirectory(prefix="polydl-") as folder:
        path = Path(folder, "output.c")
        path.write_bytes(as_c(text).encode("utf-8", "surrogateescape"))
        flags = [*toolchain.cflags, *unit_flags(source), *warnings]
        wanted = ["-O1", "-c", "-o", Path(folder, "output.o")] if object_code else ["-fsyntax-only"]
        result = run_compiler([compiler, *flags, *wanted, path])
    return replace(result, output=result.output.replace(str(path), name))


def compiler_version(toolchain: Toolchain) -> str:
    """First line of what the compiler says about itself. Raises ToolchainError."""
    path = find_compiler(toolchain)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise ToolchainError(f"'{toolchain.cc} --version' failed: {done.stderr.strip()}")
    return done.stdout.partition("\n")[0]
