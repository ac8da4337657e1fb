"""Sparse matrices as arrays, and products with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polydl

BSR = """
void product(int n, int m, int k, const int ptr[restrict n + 1], const int *restrict idx,
             const float val[restrict][8][8], const float x[restrict m][8][k], float y[restrict n][8][k])
{
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 8; r++)
            for (int j = 0; j < k; j++) {
                y[i][r][j] = 0;
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 8; c++)
                        y[i][r][j] += val[p][r][c] * x[idx[p]][c][j];
            }
}
"""


def sparse(rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(3)
    made = rng.integers(-4, 5, (rows, columns)) * (rng.random((rows, columns)) < 0.2)
    made[rows // 3] = 0
    return made.astype(dtype)


def dense(of: polydl.SparseRows, columns: int) -> np.ndarray:
    val = of.val.reshape(len(of.idx), *(of.val.shape[1:] or (1, 1)))
    height, width = val.shape[1:]
    out = np.zeros(((len(of.ptr) - 1) * height, columns), of.val.dtype)
    for i in range(len(of.ptr) - 1):
        assert np.all(np.diff(of.idx[of.ptr[i] : of.ptr[i + 1]]) > 0)
        for p in range(of.ptr[i], of.ptr[i + 1]):
            out[i * height : (i + 1) * height, of.idx[p] * width : (of.idx[p] + 1) * width] = val[p]
    return out


@pytest.mark.parametrize("block", [(1, 1), (1, 4), (3, 2), (12, 8)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_blocks_hold_the_matrix(block: tuple[int, int], dtype: Any) -> None:
    matrix = sparse(12, 8, dtype)
    found = polydl.sparse_rows(matrix, block)
    assert found.val.dtype == dtype
    assert found.ptr.dtype == found.idx.dtype == np.int32
    assert np.array_equal(dense(found, 8), matrix)


def test_empty_matrices() -> None:
    found = polydl.sparse_rows(np.zeros((6, 4)), (2, 2))
    assert (found.ptr.tolist(), found.idx.tolist(), found.val.shape) == ([0, 0, 0, 0], [], (0, 2, 2))
    assert polydl.sparse_rows(np.zeros((0, 4))).ptr.tolist() == [0]
    assert polydl.sparse_rows(np.zeros((3, 0))).ptr.tolist() == [0, 0, 0, 0]


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr"])
def test_tensors_of_torch(layout: str) -> None:
    torch = pytest.importorskip("torch", reason="an extra")
    matrix = torch.tensor(sparse(12, 8))
    blocks = {"blocksize": (3, 2)} if layout == "sparse_bsr" else {}
    given = matrix if layout == "strided" else matrix.to_sparse(layout=getattr(torch, layout), **blocks)
    assert np.array_equal(dense(polydl.sparse_rows(given, (3, 2)), 8), matrix.numpy())


class Scipys:
    """What is used of a sparse matrix of scipy, with an element given twice."""

    shape = (2, 3)

    def tocoo(self) -> Scipys:
        return self

    row, col, data = np.array([1, 0, 1]), np.array([2, 0, 2]), np.array([1.0, 5.0, 2.0])


def test_matrices_of_scipy() -> None:
    assert dense(polydl.sparse_rows(Scipys()), 3).tolist() == [[5, 0, 0], [0, 0, 3]]


@pytest.mark.parametrize(("shape", "block"), [((4, 4), (3, 2)), ((4, 4), (2, 3)), ((4,), (1, 1)), ((4, 4), (0, 1))])
def test_wrong_shapes_are_refused(shape: tuple[int, ...], block: tuple[int, int]) -> None:
    with pytest.raises(polydl.InputError, match=r"blocks of|two dimensions"):
        polydl.sparse_rows(np.zeros(shape), block)


def test_a_product_from_python() -> None:
    kernel = polydl.compile(BSR, {"k": 96}, tune=False)
    assert "Microkernel(" in str(kernel.made.recipe)
    for rows, columns in [(64, 48), (8, 8), (256, 16)]:
        matrix = sparse(rows, columns)
        ptr, idx, val = polydl.sparse_rows(matrix, (8, 8))
        x = np.random.default_rng(4).integers(-4, 5, (columns, 96)).astype(np.float32)
        y = np.empty((rows // 8, 8, 96), np.float32)
        kernel(n=rows // 8, m=columns // 8, ptr=ptr, idx=idx, val=val, x=x.reshape(-1, 8, 96), y=y)
        assert np.array_equal(y.reshape(rows, 96), matrix @ x)
