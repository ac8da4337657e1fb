"""Problem sizes from CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sizes


def test_shipped_files() -> None:
    assert len(sizes.conv_layers()) > 50
    assert sizes.gemm_sizes()


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("workload,M,N\na,1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"mine.csv lacks the column K: it has workload, M, N"):
        sizes.gemm_sizes(path)
    with pytest.raises(ValueError, match=r"mine.csv lacks the columns network, layer, ifw, .*: it has workload, M, N"):
        sizes.conv_layers(path)
