"""The measurements that polydl ships are read, whatever version of it wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polydl.base import resources
from polydl.base.errors import StoreError
from polydl.learn.train import parquet
from polydl.learn.train.training_data import digest
from polydl.measure.store import Store
from polydl.schedule.recipe import Recipe
from tests.measure.test_store import KERNEL, MACHINE, row

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

FOLDER = resources.trained_models() / "data"


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.parquet")), ids=lambda path: path.stem)
def test_shipped_measurements(path: Path) -> None:
    found = parquet.read(path)
    assert digest(found.rows) in path.with_suffix(".md").read_text(encoding="utf-8")
    assert f"`{path.relative_to(FOLDER)}`" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert {r.kernel for r in found.rows} == set(found.kernels) and {r.machine for r in found.rows} == {*found.machines}
    # Kernels whose arrays are of several types have no one type.
    assert {r.dtype for r in found.rows} == {"" if "u8s8" in path.stem else "float"}
    assert all(Recipe.from_json(r.recipe).id == r.variant for r in found.rows if r.variant != "original")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    with Store(tmp_path / "store.sqlite") as store:
        store.add_kernel(KERNEL, "f", "void f(void) {}")
        store.add_machine(MACHINE, "name = 'x'")
        store.add([row("a"), row("b", median=None, samples=(), features={}, flags=())])
        assert parquet.write(store, tmp_path / "rows.parquet") == 2
    return tmp_path / "rows.parquet"


def test_rows_come_back_as_they_were_exported(exported: Path) -> None:
    assert parquet.read(exported).rows == [row("a"), row("b", median=None, samples=(), features={}, flags=())]


def changed(path: Path, change: Callable[[Any], Any]) -> Path:
    """The file with its table changed, and what polydl says of it as it was."""
    from pyarrow import parquet as pq

    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)
    return path


def test_a_column_of_a_later_version_is_left_out(exported: Path) -> None:
    path = changed(exported, lambda table: table.append_column("mood", [["good", "bad"]]))
    assert [r.variant for r in parquet.read(path).rows] == ["a", "b"]


def test_a_column_that_is_missing_is_named(exported: Path) -> None:
    with pytest.raises(StoreError, match="missing required field `threads`"):
        parquet.read(changed(exported, lambda table: table.drop_columns(["threads"])))


def test_a_value_of_another_type_is_named(exported: Path) -> None:
    def mistaken(table: Any) -> Any:
        place = table.column_names.index("median")
        return table.set_column(place, "median", [["quick", "slow"]])

    with pytest.raises(StoreError, match=r"damaged: Expected `float \| null`, got `str` - at `\$\.median`"):
        parquet.read(changed(exported, mistaken))


def test_another_format_is_refused(exported: Path) -> None:
    from pyarrow import parquet as pq

    table = pq.read_table(exported)
    document = json.dumps({"format": "polydl-measurements", "version": 2})
    pq.write_table(table.replace_schema_metadata({"polydl-measurements": document}), exported)
    with pytest.raises(StoreError, match="no measurements of this version"):
        parquet.read(exported)
