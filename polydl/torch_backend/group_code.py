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
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import polydl.base.version
from polydl.base.cache import Cache, compiler_parts, key_of
from polydl.base.errors import ToolchainError
from polydl.base.recursion import deep
from polydl.base.resources import header_flags
from polydl.measure import Toolchain
from polydl.measure.compiler import find_compiler, link_flags, run_compiler
from polydl.measure.compiler_faults import MASKED_LOADS, avoiding
from polydl.options import Options
from polydl.pipeline import optimize
from polydl.schedule.tree import kernels
from polydl.target.detect import read_processor
from polydl.torch_backend.backend_options import BackendOptions

_OBJECTS = Cache("torch_groups", ".so", 5000)
_TEXTS = Cache("torch_texts", ".json", 5000)
_TIMEOUT = 300.0
"""Seconds that the compiler may take for a group."""
ENTRY = "polydl_call"
_FORMAT = 5
"""Of the entries in the cache; another number where what they hold or how it is made changes."""
_SHARED = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,defs")


@dataclass(frozen=True, slots=True)
class GroupCode:
    """A group's function in this process."""

    key: str
    """Of its entries in the cache."""
    name: str
    """Of the C function."""
    how: str
    """`ranked` by the estimate, `measured`, or `as written`."""
    variants: tuple[str, ...]
    """Ids of the variants that polydl took, one for each of the text's regions that was optimized."""
    notes: tuple[str, ...]
    """What the search told people."""
    kernels: int
    """Places where microkernels run."""
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


def begun(
    text: Callable[[str], str], arguments: int, o: BackendOptions, compilers: Executor, *, search: bool, branches: bool
) -> Callable[[], GroupCode]:
    """Search the code of a group, `text(name)` its C and `arguments` the number of its arrays, and begin to compile it
    on one of the threads of `compilers`; what is returned waits for it. `branches` says whether the text has loads
    under conditions, which some compilers get wrong; what is searched may have them in any case.

    Both raise what polydl raises for C that it refuses, and ToolchainError.
    """
    name = name_of(text)
    how = "as written" if not search else "measured" if o.tune else "ranked"
    flags = avoiding(MASKED_LOADS, Options(cc=o.cc).toolchain()) if branches or search else ()
    key = key_of([name, *parts(how, flags, o)])
    with _lock:
        found = _loaded.get(key)
    if found is not None:
        return lambda: found
    written = text(name)
    searched, path = _from_cache(key)
    if searched is None or path is None:
        if how == "as written":
            searched = _Searched(written, written, (), (), 0)
        else:
            searched = _optimized(written, name, how, flags, o)
        compiling = compilers.submit(_compiled, key, searched.text + entry(name, arguments, ENTRY), flags, o)
        _TEXTS.write(key, json.dumps(asdict(searched)).encode())

        def waited() -> Path:
            return compiling.result()
    else:
        at_once = path

        def waited() -> Path:
            return at_once

    return lambda: _loaded_code(key, name, how, written, searched, waited())


def known(key: str, name: str, how: str) -> GroupCode | None:
    """The code of a group that was made before, here or by another process; None if it is in no cache. Raises
    ToolchainError where it cannot be loaded."""
    with _lock:
        found = _loaded.get(key)
    if found is not None:
        return found
    searched, path = _from_cache(key)
    if searched is None or path is None:
        return None
    return _loaded_code(key, name, how, searched.written, searched, path)


def made(text: Callable[[str], str], arguments: int, o: BackendOptions, *, search: bool, branches: bool) -> GroupCode:
    """The code of a group, as `begun` makes it."""
    with ThreadPoolExecutor(1) as compilers:
        return begun(text, arguments, o, compilers, search=search, branches=branches)()


def parts(how: str, flags: Sequence[str], o: BackendOptions) -> list[str | bytes]:
    """What the code of a group depends on beside its text."""
    processor = read_processor()
    machine = (platform.machine(), processor.vendor, processor.family, processor.model, sorted(processor.flags))
    asked = (_FORMAT, how, tuple(flags), o.threads, o.reassociate, o.fast_math)
    return [polydl.base.version.__version__, repr(machine), repr(asked), *compiler_parts(o.cc, ())]


@dataclass(frozen=True, slots=True)
class _Searched:
    """What polydl made of a group's text."""

    written: str
    """The group's text."""
    text: str
    variants: tuple[str, ...]
    notes: tuple[str, ...]
    """What the search told people."""
    kernels: int


def _from_cache(key: str) -> tuple[_Searched | None, Path | None]:
    """What an earlier process made, and its shared object."""
    document = _TEXTS.read(key)
    if document is None or _OBJECTS.read(key) is None:
        return None, None
    said = json.loads(document)
    found = _Searched(said["written"], said["text"], tuple(said["variants"]), tuple(said["notes"]), said["kernels"])
    return found, _OBJECTS.path(key)


def _loaded_code(key: str, name: str, how: str, written: str, searched: _Searched, path: Path) -> GroupCode:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolchainError(f"the code of {name} cannot be loaded: {error}") from error
    address = ctypes.cast(getattr(library, ENTRY), ctypes.c_void_p).value
    if address is None:
        raise ToolchainError(f"the code of {name} has no {ENTRY}")
    code = GroupCode(
        key,
        name,
        how,
        searched.variants,
        searched.notes,
        searched.kernels,
        written,
        searched.text,
        path,
        address,
        library,
    )
    with _lock:
        return _loaded.setdefault(key, code)


@deep()
def _optimized(written: str, name: str, how: str, flags: tuple[str, ...], o: BackendOptions) -> _Searched:
    """The C of the best variants. Without timing in the small space: its first variant is hardly ever estimated to take
    longer than that of the default space, which takes two to four times as long to search."""
    measured = how == "measured"
    options = Options(
        function=name, threads=o.threads, cc=o.cc, reassociate=o.reassociate, fast_math=o.fast_math, top_k=3,
        cflags=flags, space="default" if measured else "small",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="polydl-torch-") as folder, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        done = optimize(written, Path(folder, "group.c"), options, run=measured)
    variants = tuple(one.chosen.id for one in done.scops if one.chosen is not None)
    used = sum(1 for one in done.scops if one.chosen is not None for _ in kernels(one.chosen.tree))
    return _Searched(written, done.text, variants, tuple(dict.fromkeys(str(one.message) for one in told)), used)


def entry(name: str, arguments: int, called: str) -> str:
    """C of a function `called` that takes the addresses of all arguments of the function `name`, and calls it."""
    given = ", ".join(f"polydl_arguments[{i}]" for i in range(arguments))
    return (
        f'\n__attribute__((visibility("default"))) void {called}(void *const *polydl_arguments)\n'
        f"{{\n    {name}({given});\n}}\n"
    )


def _compiled(key: str, text: str, flags: Sequence[str], o: BackendOptions) -> Path:
    """The shared object of a text. Raises ToolchainError."""
    toolchain: Toolchain = Options(cc=o.cc).toolchain()
    folder = Path(tempfile.mkdtemp(prefix="polydl-torch-group-"))
    source, target = folder / "group.c", folder / "group.so"
    source.write_text(text, encoding="utf-8")
    arguments: list[str | Path] = [*toolchain.cflags, *flags, *header_flags(), *_SHARED, "-o", target, source]
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
