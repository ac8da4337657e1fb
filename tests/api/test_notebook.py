"""The notebook in examples/ runs from top to bottom, and what it shows is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NOTEBOOK = EXAMPLES / "rank_variants.ipynb"


def test_the_notebook_runs(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))  # nothing of the user's, nothing left behind
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    shown = [html(cell) for cell in notebook.cells if cell.cell_type == "code"]
    for text in (
        "ranked by traffic for Intel Xeon Platinum 8480+, 8 threads",
        "matmul(A: float[96][80]",
        "S0[i, j, k]",
    ):
        assert any(text in one for one in shown), text


def html(cell: Any) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


def test_what_is_committed_is_small() -> None:
    assert NOTEBOOK.stat().st_size < 100_000
