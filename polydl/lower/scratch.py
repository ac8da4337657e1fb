"""Memory for copies (packed operands, private outputs): one block for each region that runs, owned by its thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from polydl.base.records import dataclass
from polydl.base.units import bytes_text
from polydl.lower.cprint import expression
from polydl.lower.ctree import Binary, Block, Cast, Declare, Expr, If, Int, Name, Node, Raw, Text
from polydl.lower.packing_plan import PackCall
from polydl.model.types import ElementType

_ALIGNMENT = 4096
"""Bytes between buffers: page-aligned, so that the placement does not depend on the sizes before it."""

_UNTIL_THE_END = "__attribute__((cleanup(polydl_scratch_end)))"
"""Wherever the region is left, its memory is free again: a function with a region that is called in it has its own."""
_PROLOGUE = """\
#include <stdint.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#include <pthread.h>
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
/* Blocks of a thread: the first ones are those that regions use which run at the moment, one inside of the other. They
   are kept for the next calls by this thread, and freed when it ends. */
struct polydl_block {
    struct polydl_block *next;
    size_t bytes;
    int used;
};
static _Thread_local struct polydl_block *polydl_blocks;
static inline char *polydl_begin_of(struct polydl_block *block)
{
    return (char *)(((uintptr_t)(block + 1) + 4095) / 4096 * 4096);
}
#ifdef _OPENMP
static pthread_key_t polydl_held;
static int polydl_held_fails;
static void polydl_free_blocks(void *first)
{
    for (struct polydl_block *block = (struct polydl_block *)first, *next; block; block = next) {
        next = block->next;
        free(block);
    }
}
static void polydl_make_held(void)
{
    polydl_held_fails = pthread_key_create(&polydl_held, polydl_free_blocks);
}
#endif
/* At least `bytes` bytes, aligned to a page, until polydl_scratch_end; NULL when there is no memory. */
static inline char *polydl_scratch(size_t bytes)
{
    struct polydl_block **at = &polydl_blocks;
    while (*at && (*at)->used) at = &(*at)->next;
    struct polydl_block *block = *at;
    if (!block || block->bytes < bytes) {
        struct polydl_block *const next = block ? block->next : NULL;
        free(block);
        block = (struct polydl_block *)malloc(sizeof *block + bytes + 4095);
        *at = block ? block : next;
        if (block) block->next = next, block->bytes = bytes;
#ifdef _OPENMP
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, polydl_make_held);
        if (!polydl_held_fails) pthread_setspecific(polydl_held, polydl_blocks);
#endif
        if (!block) return NULL;
    }
    block->used = 1;
    return polydl_begin_of(block);
}
static inline void polydl_scratch_end(char *const *memory)
{
    struct polydl_block *block = polydl_blocks;
    while (block && polydl_begin_of(block) != *memory) block = block->next;
    if (block) block->used = 0;
}
"""


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """Memory that generated code takes of its own, in bytes: packed copies, parts of arrays that live in one iteration,
    arrays that rewrites made."""

    shared: int = 0
    """There once, for all threads."""
    per_thread: int = 0
    """For each thread."""

    @property
    def of_one(self) -> int:
        """What a run with one thread takes; one with T threads takes at most T times as much."""
        return self.shared + self.per_thread

    def total(self, threads: int) -> int:
        """What a run with so many threads takes."""
        return self.shared + threads * self.per_thread

    def to_data(self, threads: int) -> dict[str, int]:
        """The entry `scratch` of a variant in documents."""
        return {"shared_bytes": self.shared, "bytes_per_thread": self.per_thread, "bytes": self.total(threads)}

    def text(self, threads: int) -> str:
        """For people."""
        each, total = bytes_text(self.per_thread), bytes_text(self.total(threads))
        shared = f" and {bytes_text(self.shared)} that threads share" if self.shared else ""
        return f"memory of its own: {each} per thread{shared}, {total} in all with {threads} threads"


NO_MEMORY = OwnMemory()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A part of the memory."""

    name: str
    """C name of the pointer to it."""
    element: ElementType
    bytes: int
    """A multiple of the alignment."""
    shared: bool
    """One for all threads, or one per thread."""
    within: str = ""
    """Name of the buffer that it is a part of; empty: it is a part of none."""
    start: int = 0
    """Bytes from the start of that one."""


@dataclass(frozen=True, slots=True)
class Sized:
    """A part of the memory of which it shows at run time how large it is; all threads share it."""

    name: str
    """C name of the pointer to it."""
    element: ElementType
    count: Expr
    """C: how many elements it has."""

    @property
    def bytes(self) -> str:
        """C name of its size."""
        return f"{self.name}_bytes"

    def size_line(self) -> str:
        """C declaration of its size, a multiple of the alignment."""
        wanted = expression(Binary("*", self.count, Int(self.element.bytes)))
        pages = f"({wanted} + {_ALIGNMENT - 1}) / {_ALIGNMENT} * {_ALIGNMENT}"
        return f"const size_t {self.bytes} = {pages};"


@dataclass(slots=True)
class Scratch:
    """Copies that a region needs, laid out one after the other: shared ones first, those of run-time sizes last among
    them, then a set for each thread."""

    buffers: list[Buffer] = field(default_factory=list)
    sized: list[Sized] = field(default_factory=list)

    def add(self, pack: PackCall, element: ElementType) -> str:
        """Reserve a buffer for a packed operand, `element` the type of its words; returns its C name."""
        return self.reserve(f"polydl_{pack.name}", element, pack.words * element.bytes, pack.shared)

    def reserve(self, name: str, element: ElementType, size: int, shared: bool = True) -> str:
        """Reserve `size` bytes; returns the C name."""
        self.buffers.append(Buffer(name, element, -(-size // _ALIGNMENT) * _ALIGNMENT, shared))
        return name

    def reserve_parts(self, name: str, parts: Sequence[Buffer], *, shared: bool) -> None:
        """Reserve memory in which buffers lie, each at its start; they may have bytes in common."""
        self.reserve(name, parts[0].element, max(one.start + one.bytes for one in parts), shared)
        self.buffers += [replace(one, within=name, shared=shared) for one in parts]

    def reserve_sized(self, name: str, element: ElementType, count: Expr) -> None:
        """Reserve memory for as many elements as an expression in C, of type size_t, says."""
        self.sized.append(Sized(name, element, count))

    @property
    def used(self) -> bool:
        """Whether there is any."""
        return bool(self.buffers or self.sized)

    def _offset(self, wanted: Buffer) -> int:
        """Bytes from the start of the shared part, or of a thread's part."""
        if wanted.within:
            return wanted.start + self._offset(next(b for b in self.buffers if b.name == wanted.within))
        before = self.buffers[: self.buffers.index(wanted)]
        return sum(b.bytes for b in before if b.shared == wanted.shared and not b.within)

    def _total(self, *, shared: bool) -> int:
        return sum(b.bytes for b in self.buffers if b.shared == shared and not b.within)

    @property
    def memory(self) -> OwnMemory:
        """How much it is, without what is sized at run time."""
        return OwnMemory(self._total(shared=True), self._total(shared=False))

    def thread_line(self, name: str) -> Declare:
        """C declaration of a thread's own buffer, for inside of the parallel loops."""
        # Later nests may still reserve more: `around` knows the sizes.
        buffer = next(b for b in self.buffers if b.name == name)
        t, start = buffer.element.c, self._offset(buffer)
        own = Text(f"(polydl_own + (size_t)polydl_thread() * polydl_each + {start})")
        return Declare(f"{t} *const", ((name, Cast(f"{t} *", own)),))

    def prologue(self) -> str:
        """File-scope C that the region needs."""
        return _PROLOGUE

    def around(self, code: Sequence[Node], original: str) -> list[Node]:
        """The region's code with the allocation, and the original loops for when there is no memory."""
        fixed, each = self._total(shared=True), self._total(shared=False)
        after = [" + ".join([str(fixed), *(one.bytes for one in self.sized[:k])]) for k in range(len(self.sized) + 1)]
        size = after[-1] + (f" + (size_t)polydl_threads() * {each}" if each else "")
        shared = [
            f"{b.element.c} *const {b.name} = ({b.element.c} *)(polydl_memory + {self._offset(b)});"
            for b in self.buffers
            if b.shared and all(part.within != b.name for part in self.buffers)
        ]
        shared += [
            f"{b.element.c} *const {b.name} = ({b.element.c} *)(polydl_memory + {start});"
            for b, start in zip(self.sized, after, strict=False)
        ]
        if each:
            shared.append(f"char *const polydl_own = polydl_memory + {after[-1]};")
            shared.append(f"const size_t polydl_each = {each};")
        sizes = [one.size_line() for one in self.sized]
        return [
            Raw((*sizes, f"char *const polydl_memory {_UNTIL_THE_END} = polydl_scratch({size});")),
            If(Name("polydl_memory"), Block((Raw(tuple(shared)), *code)), Raw((original,), indented=False)),
        ]
