"""Memory that variants take of their own: how much it is, and what a bound leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from polydl.inspect.documents import optimize_json
from polydl.lower.emit import generate
from polydl.options import Options
from polydl.pipeline import load, optimize, rank, with_fused
from polydl.schedule.part_storage import storage
from polydl.search.timing_order import TimingOrder
from tests.search.test_merged import ATTENTION, CHAIN, OPTIONS, merged

MHA_4: dict[str, int | str] = {"HEADS": 32 * 16, "S": 512, "D": 64, "SCALE": "0.125f"}
"""A batch of 32 of 16 heads."""


def test_attention_of_a_large_batch(tmp_path: Path) -> None:
    """Each thread has at most the scores and one packed operand of the block of queries that it is at."""
    for variant in merged(tmp_path, ATTENTION, MHA_4):
        memory = variant.generated.memory
        assert memory.shared == 0 and memory.total(2) == 2 * memory.per_thread
        (part,) = storage(variant.program, variant.tree).values()
        assert part.array == "p" and part.elements <= 512 * 512
        assert part.bytes <= memory.per_thread < 2 << 20


def test_memory_is_what_the_text_asks_for(tmp_path: Path) -> None:
    (first, *_) = merged(tmp_path, CHAIN, {"M": 100, "READ": "i"})
    memory = generate(first.program, first.tree).memory
    asked = f"polydl_scratch({memory.shared} + (size_t)polydl_threads() * {memory.per_thread})"
    assert memory.per_thread > 0 and asked in first.generated.region
    assert memory.to_data(3) == {
        "shared_bytes": memory.shared, "bytes_per_thread": memory.per_thread,
        "bytes": memory.shared + 3 * memory.per_thread,
    }  # fmt: skip


@pytest.mark.parametrize("most", [0, 4096, 1 << 20])
def test_what_does_not_fit_is_not_offered(tmp_path: Path, most: int) -> None:
    file = tmp_path / "chain.c"
    file.write_text(CHAIN)
    o = OPTIONS.changed(scratch=most)
    (scop,) = load(file, o, defines={"M": 100, "READ": "i"}).scops
    ranking = with_fused(rank(scop, options=o), o)
    order = TimingOrder(ranking.variants, 6)
    chosen, refused = order.next({}, 6), order.illegal
    assert chosen and all(v.generated.memory.of_one <= most for v in chosen)
    said = [line for line in (*refused, *ranking.given_up) if f"than {most} bytes (--scratch)" in line]
    assert bool(said) == (most <= 4096)
    free = TimingOrder(with_fused(rank(scop, options=OPTIONS), OPTIONS).variants, 6).next({}, 6)
    assert most != 1 << 20 or [v.id for v in free] == [v.id for v in chosen]


def test_documents_have_it(tmp_path: Path) -> None:
    file = tmp_path / "chain.c"
    file.write_text(CHAIN)
    o = Options(machine="epyc-zen5", threads=1, space="small", defines={"M": 100, "READ": "i"}, budget=4.0, top_k=2)
    data = optimize_json(optimize(file, tmp_path / "out.c", o))
    assert all(one["scratch"]["bytes"] >= one["scratch"]["bytes_per_thread"] for one in data["variants"])
