"""Makes machine code of a group's C text: searched by polydl, compiled, cached by content, loaded.

Equal texts are made once, in a process and across processes: the name of the function is a digest of the text.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polydl.base.version
from polydl.base.cache import Cache, compiler_parts, key_of
from polydl.base.errors import ToolchainError
from polydl.base.recursion import deep
from polydl.base.resources import header_flags
from polydl.measure import Toolchain
from polydl.measure.compiler import find_compiler, link_flags, run_compiler
from polydl.options import Options
from polydl.pipeline import optimize
from polydl.target.detect import read_processor
from polydl.torch_backend.backend_options import BackendOptions

_OBJECTS = Cache("torch_groups", ".so", 5000)
_TEXTS = Cache("torch_texts", ".json", 5000)
_TIMEOUT = 300.0
"""Seconds that the compiler may take for a group."""
_ENTRY = "polydl_call"
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")


@dataclass(frozen=True, slots=True)
class GroupCode:
    """A group's function in this process."""

    name: str
    """Of the C function."""
    how: str
    """`ranked` by the estimate, `measured`, or `as written`."""
    variants: tuple[str, ...]
    """Ids of the variants that polydl took, one for each of the text's regions that was optimized."""
    written: str
    """The C text of the group."""
    text: str
    """The C text that was compiled."""
    file: Path
    """The shared object."""
    address: int
    """Of a function that takes an array of the arguments' addresses."""
    library: ctypes.CDLL


_loaded: dict[str, GroupCode] = {}
_lock = threading.Lock()


def forget() -> None:
    """Empty what this process holds. Files of the cache stay, and code that graphs still use too."""
    with _lock:
        _loaded.clear()


def name_of(text: Callable[[str], str]) -> str:
    """The name of a group's function: equal groups have equal names."""
    return f"polydl_{hashlib.sha256(text('polydl_group').encode()).hexdigest()[:20]}"


def made(text: Callable[[str], str], arguments: int, o: BackendOptions, *, search: bool) -> GroupCode:
    """The code of a group, `text(name)` its C and `arguments` the number of its arrays.

    Raises what polydl raises for C that it refuses, and ToolchainError.
    """
    name = name_of(text)
    how = "as written" if not search else "measured" if o.tune else "ranked"
    key = key_of(_parts(name, how, o))
    with _lock:
        found = _loaded.get(key)
    if found is None:
        found = _load(key, name, text(name), arguments, how, o)
        with _lock:
            found = _loaded.setdefault(key, found)
    return found


def _parts(name: str, how: str, o: BackendOptions) -> list[str | bytes]:
    """What the code depends on."""
    processor = read_processor()
    machine = (platform.machine(), processor.vendor, processor.family, processor.model, sorted(processor.flags))
    asked = (how, o.threads, o.reassociate, o.fast_math)
    return [polydl.base.version.__version__, name, repr(machine), repr(asked), *compiler_parts(o.cc, ())]


def _load(key: str, name: str, written: str, arguments: int, how: str, o: BackendOptions) -> GroupCode:
    document = _TEXTS.read(key)
    object_code = _OBJECTS.read(key) if document is not None else None
    if document is None or object_code is None:
        text, variants = (written, ()) if how == "as written" else _optimized(written, name, how, o)
        path = _compiled(key, text + _entry(name, arguments), o)
        _TEXTS.write(key, json.dumps({"text": text, "variants": variants}).encode())
    else:
        known = json.loads(document)
        text, variants, path = known["text"], tuple(known["variants"]), _OBJECTS.path(key)
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(f"the code of {name} cannot be loaded: {error}") from error
    address = ctypes.cast(getattr(library, _ENTRY), ctypes.c_void_p).value
    if address is None:
        raise ToolchainError(f"the code of {name} has no {_ENTRY}")
    return GroupCode(name, how, variants, written, text, path, address, library)


@deep()
def _optimized(written: str, name: str, how: str, o: BackendOptions) -> tuple[str, tuple[str, ...]]:
    """The C of the best variants, and their ids."""
    options = Options(
        function=name, threads=o.threads, cc=o.cc, reassociate=o.reassociate, fast_math=o.fast_math, top_k=3
    )
    with tempfile.TemporaryDirectory(prefix="polydl-torch-") as folder:
        target = Path(folder, "group.c")
        done = optimize(written, target, options, run=how == "measured")
    return done.text, tuple(one.chosen.id for one in done.scops if one.chosen is not None)


def _entry(name: str, arguments: int) -> str:
    """C of the function that is called: it takes the addresses of all arguments."""
    given = ", ".join(f"polydl_arguments[{i}]" for i in range(arguments))
    return (
        f'\n__attribute__((visibility("default"))) void {_ENTRY}(void *const *polydl_arguments)\n'
        f"{{\n    {name}({given});\n}}\n"
    )


def _compiled(key: str, text: str, o: BackendOptions) -> Path:
    """The shared object of a text. Raises ToolchainError."""
    toolchain: Toolchain = Options(cc=o.cc).toolchain()
    folder = Path(tempfile.mkdtemp(prefix="polydl-torch-group-"))
    source, target = folder / "group.c", folder / "group.so"
    source.write_text(text, encoding="utf-8")
    arguments: list[str | Path] = [*toolchain.cflags, *header_flags(), *_SHARED, "-o", target, source]
    arguments += link_flags(toolchain)
    done = run_compiler([find_compiler(toolchain), *arguments], _TIMEOUT)
    if not done.ok:
        raise ToolchainError(f"the code of a group cannot be compiled ({source}): {done.message}")
    if not _OBJECTS.write(key, target.read_bytes()):
        return target
    source.unlink()
    target.unlink()
    folder.rmdir()
    return _OBJECTS.path(key)
