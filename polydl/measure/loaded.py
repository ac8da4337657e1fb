"""The inputs of a verification run in shared memory, which one run after the other finds as they were."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from polydl.base.records import dataclass
from polydl.measure.driver import Block, shared_memory
from polydl.measure.input_data import AnyArray, Buffer, write_inputs


@dataclass(frozen=True, slots=True)
class Run:
    """One kind of verification run."""

    name: str
    inputs: list[AnyArray]
    blocks: tuple[Block, ...]
    threads: int
    whole: bool = True
    """Whether the inputs are integers: what one order of sums of these does not round, no other order does."""


class Loaded:
    """The shared file with the inputs of a run. After a run, its results are there until the next one begins.

    For runs of the same inputs at the same places, the original's too: writing large inputs anew takes longer than many
    a run.
    """

    def __init__(self, run: Run, descriptor: int, mapping: mmap.mmap) -> None:
        self.run = run
        self.descriptor = descriptor
        self.mapping = mapping
        self._stale: list[int] = list(range(len(run.blocks)))

    def fresh(self) -> None:
        """Put the inputs back where the run before may have changed them."""
        run, stale = self.run, self._stale
        write_inputs(self.mapping, [run.blocks[i] for i in stale], [run.inputs[i] for i in stale])
        self._stale = list(range(len(run.blocks)))

    def keep_read(self, buffers: Sequence[Buffer]) -> None:
        """The run changed nothing that it must not (`verify.damage` has seen to that): what it only reads may stay."""
        self._stale = [i for i, buffer in enumerate(buffers) if buffer.written]


@contextmanager
def loaded(run: Run) -> Iterator[Loaded]:
    """The shared file for the inputs of a run. Removed at the end."""
    with shared_memory("polydl-data", sum(block.block_bytes for block in run.blocks)) as (descriptor, mapping):
        yield Loaded(run, descriptor, mapping)
