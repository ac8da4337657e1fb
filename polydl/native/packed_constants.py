"""Copies of a kernel's constant arrays in the layout that its code reads: made once for each array, and kept."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polydl.native.call_arguments import torch_tensor

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Kept(NamedTuple):
    """The copies of some arrays."""

    arrays: tuple[weakref.ref[Any], ...]
    state: tuple[tuple[int, int], ...]
    """Of each array the address of its first element, and its version."""
    memory: Bytes


class Constants:
    """The copies of one kernel, of as many arrays as there are, as long as these live.

    Nothing is known by an address: copies belong to array objects. Calls of several threads may ask at once.
    """

    def __init__(self, library: ctypes.CDLL, places: Sequence[int]) -> None:
        """`places`: of the constant arrays among the arguments of the function."""
        self._places = tuple(places)
        self._pack = library.polydl_native_pack
        self._pack.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._pack.restype = None
        size = library.polydl_native_pack_bytes
        size.argtypes = []
        size.restype = ctypes.c_ulong
        self._bytes: int = size()
        self._kept: dict[tuple[int, ...], _Kept] = {}
        self._lock = threading.Lock()

    def packed(self, arrays: Sequence[Any], pointers: Any) -> Bytes:
        """The copies of arrays, one per place; `pointers`: the addresses of all arguments. The caller holds what is
        returned for as long as it is read."""
        key = tuple(map(id, arrays))
        state = tuple((pointers[at] or 0, _version(one)) for at, one in zip(self._places, arrays, strict=True))
        found = self._kept.get(key)
        if (
            found is not None
            and found.state == state
            and all(ref() is one for ref, one in zip(found.arrays, arrays, strict=True))
        ):
            return found.memory
        with self._lock:
            memory = np.empty(self._bytes, np.uint8)  # a new one: other threads may read the old one
            self._pack(ctypes.addressof(pointers), memory.ctypes.data)
            try:
                refs = tuple(weakref.ref(one, lambda _: self._kept.pop(key, None)) for one in arrays)
            except TypeError:
                return memory  # of what cannot be watched nothing is kept
            self._kept[key] = _Kept(refs, state, memory)
        return memory

    def forget(self) -> None:
        """Drop all copies."""
        with self._lock:
            self._kept.clear()


def _version(array: Any) -> int:
    """How often a tensor was changed in place; 0 of what does not count that."""
    return int(array._version) if torch_tensor(array) and not array.is_inference() else 0
