"""The machine code of a group's C text, cached by content, loaded; `group_search` makes it.

Equal texts are made once, in a process and across processes: the name of the function is a digest of the text.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from polydl.base import resources
from polydl.base.cache import compiler_parts, key_of, stamp
from polydl.base.errors import ToolchainError
from polydl.measure.compiler_faults import MASKED_LOADS, avoiding
from polydl.options import Options
from polydl.target.detect import read_processor
from polydl.torch_backend.backend_options import BackendOptions
from polydl.torch_backend.group_search import OBJECTS, TEXTS, Job, Searched, from_document
from polydl.torch_backend.loop_program import SizeName

ENTRY = "polydl_call"


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
    shared: int
    """Nests that share loops with others."""
    written: str
    """The C text of the group."""
    text: str
    """The C text that was compiled."""
    flags: tuple[str, ...]
    """That the compiler needs for it, beside those of every group."""
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


def asked(
    text: Callable[[str], str],
    arguments: int,
    o: BackendOptions,
    *,
    search: bool,
    sizes: Sequence[SizeName] = (),
    moved: int = 0,
) -> GroupCode | Job:
    """The code of a group, `text(name)` its C, `arguments` the number of its arrays, `moved` the bytes of these and
    `sizes` what it is given in front of them, or, where it was not made before, what is to be done for it. Raises
    ToolchainError where there is no such compiler."""
    name = name_of(text)
    how = "as written" if not search else "measured" if o.tune else "ranked"
    flags = avoiding(MASKED_LOADS, Options(cc=o.cc).toolchain())
    ranges = {one.name: one.compared for one in sizes}
    key = key_of([name, repr(ranges), *parts(how, flags, o)])
    found = known(key, name, how)
    if found is not None:
        return found
    end = entry(name, arguments, ENTRY, sizes)
    return Job(key, name, text(name), end, how, flags, o.cc, o.threads, o.reassociate, o.fast_math, ranges, moved)


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
    return loaded(key, name, how, searched, path)


def parts(how: str, flags: Sequence[str], o: BackendOptions) -> list[str | bytes]:
    """What the code of a group depends on beside its text."""
    processor = read_processor()
    machine = (platform.machine(), processor.vendor, processor.family, processor.model, sorted(processor.flags))
    asked = (how, tuple(flags), o.threads, o.reassociate, o.fast_math)
    return [*_own_files(), repr(machine), repr(asked), *compiler_parts(o.cc, ())]


@cache
def _own_files() -> tuple[str, ...]:
    """Stamps of what makes the code: after a change of polydl nothing older is taken for its own."""
    return tuple(stamp(path) for _, path in resources.own_files())


def _from_cache(key: str) -> tuple[Searched | None, Path | None]:
    """What an earlier process made, and its shared object."""
    document = TEXTS.read(key)
    if document is None or OBJECTS.read(key) is None:
        return None, None
    return from_document(json.loads(document)), OBJECTS.path(key)


def loaded(key: str, name: str, how: str, searched: Searched, path: Path) -> GroupCode:
    """The code in a shared object. Raises ToolchainError where it cannot be loaded."""
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
        searched.shared,
        searched.written,
        searched.text,
        searched.flags,
        path,
        address,
        library,
    )
    with _lock:
        return _loaded.setdefault(key, code)


def entry(name: str, arguments: int, called: str, sizes: Sequence[SizeName] = ()) -> str:
    """C of a function `called` that takes the addresses of all arguments of the function `name`, and calls it; where
    that has sizes, the first address is that of all sizes of the model, 64-bit integers."""
    given = [f"(int)((const int64_t *)polydl_arguments[0])[{one.number}]" for one in sizes]
    given += [f"polydl_arguments[{i + bool(sizes)}]" for i in range(arguments)]
    return (
        f'\n__attribute__((visibility("default"))) void {called}(void *const *polydl_arguments)\n'
        f"{{\n    {name}({', '.join(given)});\n}}\n"
    )
