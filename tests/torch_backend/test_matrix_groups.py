"""Groups of PyTorch graphs whose products run in tiles, emulated."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from polydl.base import resources
from polydl.options import Options
from polydl.torch_backend import group_search
from tests.torch_backend.test_compiled_graphs import whole

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="vector code of x86 around the tiles")


def layers(x: Tensor, v: Tensor, w: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    h = torch.relu(x @ v + bias)
    return (h @ w, h)


def test_products_of_bf16_run_in_tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYDL_CACHE", str(tmp_path))
    flags = ("-DPOLYDL_EMULATE", f"-I{resources.headers()}")
    texts: list[str] = []
    optimized = group_search.optimized

    def emulated(**asked: Any) -> Options:
        return Options(machine="xeon-8480plus", **{**asked, "cflags": (*flags, *asked.get("cflags", ()))})

    def kept(job: group_search.Job) -> group_search.Searched:
        found = optimized(job)
        texts.append(found.text)
        return found

    monkeypatch.setattr(group_search, "Options", emulated)
    monkeypatch.setattr(group_search, "optimized", kept)
    torch.manual_seed(2)
    x, v, w = (torch.randint(-3, 4, shape).to(torch.bfloat16) for shape in ((96, 128), (128, 64), (64, 80)))
    bias = torch.randint(-9, 9, (64,)).to(torch.bfloat16)
    found, _ = whole(monkeypatch, layers, [x, v, w, bias], threads=2)
    assert any(re.search(r"polydl\d*_mk_tile_bf16", text) for text in texts)
    for one, wanted in zip(found, layers(x, v, w, bias), strict=True):
        torch.testing.assert_close(one, wanted)
