"""The notebooks in examples/ run from top to bottom, and what they show is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SHOWN = {
    "rank_variants.ipynb": (
        "ranked by traffic for Intel Xeon Platinum 8480+, 8 threads",
        "matmul(A: float[96][80]",
        "S0[i, j, k]",
    ),
    "pytorch.ipynb": ("ranked aten.convolution.default", "#pragma scop", "[]"),
}
"""Of each notebook, what its cells show."""


@pytest.mark.parametrize("name", SHOWN)
def test_the_notebook_runs(name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    if name == "pytorch.ipynb":
        pytest.importorskip("torch", reason="torch is not installed")
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))  # nothing of the user's, nothing left behind
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    shown = [html(cell) for cell in notebook.cells if cell.cell_type == "code"]
    for text in SHOWN[name]:
        assert any(text in one for one in shown), text


def html(cell: Any) -> str:
    """What a cell shows, and what it prints."""
    return "".join(output.get("data", {}).get("text/html", "") + output.get("text", "") for output in cell.outputs)


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_committed_is_small(name: str) -> None:
    assert (EXAMPLES / name).stat().st_size < 100_000
