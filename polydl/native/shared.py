"""Compiles kernels to shared objects, once: they are cached by content.

The key of an entry is a digest of the preprocessed C text, the compiler and its flags, the linked files and the
processor.
"""

from __future__ import annotations

import ctypes
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

from polydl.base.cache import Cache, compiler_parts, key_of
from polydl.base.errors import ToolchainError
from polydl.base.records import dataclass
from polydl.measure import Toolchain
from polydl.measure.compiler import CompilerTooSlow, find_compiler, link_flags, run_compiler
from polydl.target.detect import read_processor

CACHE = Cache("compiled", ".so", 500)
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")
"""Hidden names neither replace those of other libraries in the process nor are replaced by them. An undefined name is
an error of the linker, not a crash at the first call."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The input of the compiler for a shared object."""

    text: str
    """C text; surrogates stand for bytes that are not UTF-8."""
    flags: tuple[str, ...]
    """Flags of the preprocessor: -D, -I, the folder of the file."""
    toolchain: Toolchain
    plain: str = ""
    """C text of the loops as they are written, for a compiler that takes too long for `text`; empty: none."""


def load(unit: Unit) -> tuple[ctypes.CDLL, Path]:
    """Load the shared object of a unit, from the cache or newly compiled; also gives its file. Raises
    CompilerTooSlow, and ToolchainError for what fails otherwise."""
    with tempfile.TemporaryDirectory(prefix="polydl-native-") as temporary:
        source = Path(temporary, "kernel.c")
        source.write_bytes(unit.text.encode("utf-8", "surrogateescape"))
        key = _key(unit, source)
        if CACHE.read(key) is None:
            made = Path(temporary, "kernel.so")
            _run(unit, [*_SHARED, "-o", made, source, *link_flags(unit.toolchain)])
            if not CACHE.write(key, made.read_bytes()):
                return _open(made), made  # stays mapped after the file is removed
        return _open(CACHE.path(key)), CACHE.path(key)


def _run(unit: Unit, arguments: list[str | Path]) -> str:
    compiler = find_compiler(unit.toolchain)
    done = run_compiler([compiler, *unit.toolchain.cflags, *unit.flags, *arguments])
    if done.late:
        raise CompilerTooSlow(done.message.removeprefix("error: "))
    if not done.ok:
        raise ToolchainError(f"the kernel cannot be compiled: {done.message}")
    return done.output


def _key(unit: Unit, source: Path) -> str:
    expanded = source.with_suffix(".i")
    _run(unit, ["-E", "-P", "-o", expanded, source])
    return key_of(_parts(unit, expanded.read_bytes()))


def _parts(unit: Unit, expanded: bytes) -> Iterator[bytes | str]:
    processor = read_processor()  # what -march=native depends on
    yield repr((platform.machine(), processor.vendor, processor.family, processor.model, sorted(processor.flags)))
    yield expanded
    tools = unit.toolchain
    yield repr((_SHARED, tools.cflags, tools.ldflags, tools.link))
    yield from compiler_parts(tools.cc, tools.link)


def _open(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(
            f"the compiled kernel cannot be loaded: {error}", hint="name every library it needs with link= or ldflags="
        ) from error
