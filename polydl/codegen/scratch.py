"""Memory for packed copies: one allocation per region, kept by the calling thread from call to call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from polydl.codegen.packing_plan import PackCall
from polydl.machine.isa import ELEMENT_TYPES, Dtype

_ALIGNMENT = 4096
"""Bytes between buffers: page-aligned, so that the placement does not depend on the sizes before it."""

_PROLOGUE = """\
#include <stdint.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif
static inline int polydl_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}
static inline int polydl_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
/* At least `bytes` bytes, aligned to a page, kept for the next call by this thread; NULL when there is no memory. */
static inline char *polydl_scratch(size_t bytes)
{
    static _Thread_local char *held;
    static _Thread_local size_t size;
    if (size < bytes) {
        free(held);
        held = malloc(bytes + 4095);
        size = held ? bytes : 0;
    }
    return held ? held + (4096 - (uintptr_t)held % 4096) % 4096 : NULL;
}
"""


@dataclass(slots=True)
class Scratch:
    """The packed copies of a region, laid out one after the other: shared ones first, then a set for each thread."""

    buffers: list[tuple[str, PackCall, Dtype]] = field(default_factory=list)
    """(C name, pack, element type)."""

    def add(self, pack: PackCall, dtype: Dtype) -> str:
        """Reserve a buffer; returns its C name."""
        name = f"polydl_{pack.name}"
        self.buffers.append((name, pack, dtype))
        return name

    def _bytes(self, pack: PackCall, dtype: Dtype) -> int:
        return -(-pack.elements * ELEMENT_TYPES[dtype].bytes // _ALIGNMENT) * _ALIGNMENT

    def _offset(self, name: str) -> int:
        """Bytes from the start of the shared part, or of a thread's part."""
        offset = 0
        shared = next(p.shared for n, p, _ in self.buffers if n == name)
        for other, pack, dtype in self.buffers:
            if other == name:
                return offset
            if pack.shared == shared:
                offset += self._bytes(pack, dtype)
        raise KeyError(name)

    def _total(self, *, shared: bool) -> int:
        return sum(self._bytes(p, t) for _, p, t in self.buffers if p.shared == shared)

    def bytes(self, threads: int) -> int:
        """All of it."""
        return self._total(shared=True) + threads * self._total(shared=False)

    def thread_line(self, name: str) -> str:
        """C declaration of a thread's own buffer, for inside of the parallel loops."""
        dtype = next(t for n, _, t in self.buffers if n == name)
        start = self._total(shared=True) + self._offset(name)
        each = self._total(shared=False)
        return f"{dtype} *const {name} = ({dtype} *)(polydl_memory + {start} + (size_t)polydl_thread() * {each});"

    def prologue(self) -> str:
        """File-scope C that the region needs."""
        return _PROLOGUE

    def around(self, lines: Sequence[str], original: str) -> list[str]:
        """The region's lines with the allocation, and the original loops for when there is no memory."""
        each = self._total(shared=False)
        size = f"{self._total(shared=True)}" + (f" + (size_t)polydl_threads() * {each}" if each else "")
        shared = [
            f"    {t} *const {n} = ({t} *)(polydl_memory + {self._offset(n)});" for n, p, t in self.buffers if p.shared
        ]
        indented = [f"  {line}" if not line.startswith("#") else line for line in lines]
        return [
            f"  char *const polydl_memory = polydl_scratch({size});",
            "  if (polydl_memory) {",
            *shared,
            *indented,
            "  } else {",
            original,
            "  }",
        ]
