"""Sparse matrices as the arrays that loops over them take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from polydl.base.errors import InputError


class SparseRows(NamedTuple):
    """A matrix by rows of blocks: CSR where blocks are single elements, else BSR. Row i has the entries
    ptr[i] <= p < ptr[i + 1], of which val[p] stands in column, or column of blocks, idx[p]; columns ascend."""

    ptr: npt.NDArray[np.int32]
    """(rows + 1,)"""
    idx: npt.NDArray[np.int32]
    """(entries,)"""
    val: npt.NDArray[Any]
    """(entries,), or (entries, rows of a block, columns of a block)."""


def sparse_rows(matrix: Any, block: tuple[int, int] = (1, 1)) -> SparseRows:
    """The entries of a matrix that are not zero, by rows of blocks.

    `matrix` is a NumPy array or torch tensor of two dimensions, a torch tensor of any sparse layout, or a sparse matrix
    or array of scipy; the elements keep their type. Elements given twice are added up. Raises InputError for a shape
    that `block` does not divide, another number of dimensions, and more entries than an int counts.

    >>> import numpy as np
    >>> sparse_rows(np.array([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]])).ptr.tolist()
    [0, 1, 1, 3]
    >>> sparse_rows(np.eye(4), block=(2, 2)).val.shape
    (2, 2, 2)
    """
    rows, columns, values, shape = _elements(matrix)
    height, width = block
    if min(block) < 1 or shape[0] % height or shape[1] % width:
        raise InputError(f"blocks of {height} x {width} do not divide a matrix of {shape[0]} x {shape[1]}")
    across = shape[1] // width
    places, of = np.unique(rows // height * across + columns // width, return_inverse=True)
    if len(places) > np.iinfo(np.int32).max:
        raise InputError(f"{len(places)} entries are more than an int counts", hint="take larger blocks")
    blocks = np.zeros((len(places), height, width), dtype=values.dtype)
    np.add.at(blocks, (of, rows % height, columns % width), values)
    row, column = np.divmod(places, max(across, 1))
    ptr = np.searchsorted(row, np.arange(shape[0] // height + 1)).astype(np.int32)
    return SparseRows(ptr, column.astype(np.int32), blocks.reshape(-1) if block == (1, 1) else blocks)


def _elements(matrix: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[Any], tuple[int, int]]:
    """Row, column and value of each element that is not zero, and the shape."""
    shape = tuple(int(n) for n in getattr(matrix, "shape", ()))
    if len(shape) != 2:
        raise InputError(f"a matrix has two dimensions, not {len(shape)}")
    if hasattr(matrix, "tocoo"):  # scipy's
        found = matrix.tocoo()
        rows, columns, values = found.row, found.col, found.data
    elif hasattr(matrix, "to_dense"):  # torch's
        found = matrix.detach().cpu().to_dense().to_sparse_coo().coalesce()
        (rows, columns), values = found.indices().numpy(), found.values().numpy()
    else:
        dense = np.asarray(matrix)
        rows, columns = np.nonzero(dense)
        values = dense[rows, columns]
    return rows.astype(np.int64), columns.astype(np.int64), np.asarray(values), (shape[0], shape[1])
