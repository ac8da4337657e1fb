"""The loops of rivals.py's workloads for numba: what people write, compiled with `parallel` and `fastmath`."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-untyped-def"
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit, prange


@njit(parallel=True, fastmath=True)
def matmul(A, B, C):
    for i in prange(C.shape[0]):
        C[i, :] = 0
        for k in range(A.shape[1]):
            for j in range(C.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


@njit(parallel=True, fastmath=True)
def conv2d(output, image, filters):
    for number in prange(output.shape[0] * output.shape[1] * output.shape[2]):
        at = np.int64(number)  # prange counts without a sign, and with a sign the sum of both is a float
        img, rest = divmod(at, output.shape[1] * output.shape[2])
        tile, y = divmod(rest, output.shape[2])
        for x in range(output.shape[3]):
            for o in range(output.shape[4]):
                output[img, tile, y, x, o] = 0
        for c in range(image.shape[1]):
            for ky in range(filters.shape[2]):
                for kx in range(filters.shape[3]):
                    for x in range(output.shape[3]):
                        for i in range(filters.shape[4]):
                            for o in range(filters.shape[5]):
                                output[img, tile, y, x, o] += (
                                    filters[tile, c, ky, kx, i, o] * image[img, c, y + ky, x + kx, i]
                                )


@njit(parallel=True, fastmath=True)
def mlp_layer(y, x, w, bias, residual):
    for i in prange(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = bias[j]
        for k in range(x.shape[1]):
            for j in range(y.shape[1]):
                y[i, j] += x[i, k] * w[k, j]
        for j in range(y.shape[1]):
            y[i, j] = max(y[i, j] + residual[i, j], np.float32(0))


@njit(parallel=True, fastmath=True)
def softmax(given, out):
    for i in prange(given.shape[0]):
        most = given[i, 0]
        for j in range(given.shape[1]):
            most = max(most, given[i, j])
        total = np.float32(0)
        for j in range(given.shape[1]):
            out[i, j] = np.exp(given[i, j] - most)
            total += out[i, j]
        for j in range(given.shape[1]):
            out[i, j] /= total


def jacobi_2d(steps: int) -> Callable[..., None]:
    """With its number of steps."""

    @njit(parallel=True, fastmath=True)
    def once(A, B):
        for i in prange(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])

    @njit
    def all_steps(A, B):
        for _ in range(steps):
            once(A, B)
            once(B, A)

    return all_steps  # type: ignore[no-any-return]


def heat_3d(steps: int) -> Callable[..., None]:
    """With its number of steps."""

    @njit(parallel=True, fastmath=True)
    def once(A, B):
        for i in prange(1, A.shape[0] - 1):
            for j in range(1, A.shape[1] - 1):
                for k in range(1, A.shape[2] - 1):
                    B[i, j, k] = (
                        0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                        + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                        + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                        + A[i, j, k]
                    )

    @njit
    def all_steps(A, B):
        for _ in range(steps):
            once(A, B)
            once(B, A)

    return all_steps  # type: ignore[no-any-return]


@njit(parallel=True, fastmath=True)
def _fields(ex, ey, hz, at_edge):
    for i in prange(ex.shape[0]):
        for j in range(ex.shape[1]):
            if i == 0:
                ey[0, j] = at_edge
            else:
                ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
            if j > 0:
                ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
    for i in prange(ex.shape[0] - 1):
        for j in range(ex.shape[1] - 1):
            hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


@njit
def fdtd_2d(ex, ey, hz, f):
    for t in range(f.shape[0]):
        _fields(ex, ey, hz, f[t])


@njit(parallel=True, fastmath=True)
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    n = A.shape[0]
    for i in prange(n):
        for j in range(n):
            A[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    for i in prange(n):
        total = 0.0
        for j in range(n):
            total += A[j, i] * y[j]
        x[i] += beta * total + z[i]
    for i in prange(n):
        total = 0.0
        for j in range(n):
            total += A[i, j] * x[j]
        w[i] += alpha * total


@njit(parallel=True, fastmath=True)
def mvt(x1, x2, y1, y2, A):
    n = A.shape[0]
    for i in prange(n):
        total = 0.0
        for j in range(n):
            total += A[i, j] * y1[j]
        x1[i] += total
    for i in prange(n):
        total = 0.0
        for j in range(n):
            total += A[j, i] * y2[j]
        x2[i] += total


@njit(parallel=True, fastmath=True)
def mm2(alpha, beta, tmp, A, B, C, D):
    for i in prange(tmp.shape[0]):
        tmp[i, :] = 0
        for k in range(A.shape[1]):
            for j in range(tmp.shape[1]):
                tmp[i, j] += alpha * A[i, k] * B[k, j]
        D[i, :] *= beta
        for k in range(C.shape[0]):
            for j in range(D.shape[1]):
                D[i, j] += tmp[i, k] * C[k, j]


@njit(parallel=True, fastmath=True)
def doitgen(A, C4):
    for r in prange(A.shape[0]):
        total = np.empty(A.shape[2])
        for q in range(A.shape[1]):
            total[:] = 0
            for s in range(A.shape[2]):
                for p in range(A.shape[2]):
                    total[p] += A[r, q, s] * C4[s, p]
            A[r, q, :] = total


def functions(workload: Mapping[str, Any]) -> dict[str, Callable[..., None]]:
    """By the names of the C functions."""
    steps = workload["defines"].get("T", 0)
    plain = (matmul, conv2d, mlp_layer, softmax, fdtd_2d, gemver, mvt, mm2, doitgen)
    found = {one.__name__: one for one in plain}
    return {**found, "jacobi_2d": jacobi_2d(steps), "heat_3d": heat_3d(steps)}
