"""Problems as data: the rows of a CSV of convolution layers or of matrix sizes, and the C file that each one tunes."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from polydl.base import resources
from polydl.base.errors import InputError, one_of
from polydl.model.types import BF16

_CONV = ("ifw", "ifh", "C", "K", "kw", "kh", "pad_w", "pad_h", "stride")
_GEMM = ("M", "N", "K")
_OPTIONAL = ("dilation", "groups")
DTYPES = ("fp32", BF16.name, "half", "u8s8", "s8s8", "s16")
"""Types of factors by names, at their numbers in `gemm_types.c` and `conv_types.c`; the first has files of its own."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel at one set of sizes."""

    name: str
    workload: str
    """The network or application that it comes from."""
    source: Path
    macros: Mapping[str, int]
    operations: float
    """Multiplications and additions."""


def channel_block(channels: int, most: int = 64) -> int:
    """The largest divisor of `channels` up to `most` that is a multiple of 16, or else the largest divisor."""
    divisors = [d for d in range(1, min(channels, most) + 1) if channels % d == 0]
    return max((d for d in divisors if d % 16 == 0), default=divisors[-1])


def read_problems(path: Path, images: int, dtype: str = DTYPES[0]) -> list[Problem]:
    """The problems of a CSV file in its order, those with the same sizes once, under the first one's name.

    Columns: `network, layer, ifw, ifh, C, K, kw, kh, pad_w, pad_h, stride[, dilation]` (convolutions of `images`
    images, channels blocked by `channel_block`), or `workload, M, N, K`; `dtype`: one of `DTYPES`, of the factors.
    Raises InputError with the place in the file.
    """
    if dtype not in DTYPES:
        raise InputError(f"no --dtype '{dtype}'", hint=one_of(dtype, DTYPES))
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            columns = tuple(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read the layers of {path}: {error}") from error
    if set(_CONV) <= set(columns):
        numbers: tuple[str, ...] = _CONV
    elif set(_GEMM) <= set(columns):
        numbers = _GEMM
    else:
        raise InputError(
            f"{path} has the columns {', '.join(columns) or 'none'}",
            hint=f"convolutions need network, layer, {', '.join(_CONV)}; matrix products workload, {', '.join(_GEMM)}",
        )
    found: dict[tuple[object, ...], Problem] = {}
    for line, row in rows:
        try:
            values = {name: int(row[name]) for name in numbers}
            values |= {name: int(row.get(name) or 1) for name in _OPTIONAL}
        except (TypeError, ValueError):
            raise InputError(f"{path}:{line}: {', '.join(numbers)} must be whole numbers") from None
        if any(v < 0 or (v == 0 and not k.startswith("pad")) for k, v in values.items()):
            raise InputError(f"{path}:{line}: sizes must be positive")
        if values["groups"] != 1:
            hint = "leave depthwise and grouped layers out"
            raise InputError(f"{path}:{line}: {values['groups']} groups, where the kernel has one", hint=hint)
        problem = _conv(row, values, images) if numbers is _CONV else _gemm(row, values)
        if min(problem.macros.values()) < 1:
            raise InputError(f"{path}:{line}: the filter is larger than the padded input")
        problem = _in_type(problem, dtype)
        found.setdefault((problem.source, *problem.macros.items()), problem)
    return list(found.values())


def _in_type(problem: Problem, dtype: str) -> Problem:
    """The same sizes with factors of another type; its name says so."""
    if dtype == DTYPES[0]:
        return problem
    source = problem.source.with_name(f"{problem.source.stem}_types.c")
    macros = {"DTYPE": DTYPES.index(dtype), **problem.macros}
    return replace(problem, name=f"{problem.name}_{dtype}", source=source, macros=macros)


def _conv(row: Mapping[str, str], v: Mapping[str, int], images: int) -> Problem:
    reach = v["dilation"]
    width = (v["ifw"] + 2 * v["pad_w"] - (v["kw"] - 1) * reach - 1) // v["stride"] + 1
    height = (v["ifh"] + 2 * v["pad_h"] - (v["kh"] - 1) * reach - 1) // v["stride"] + 1
    macros = {
        "NIMG": images,
        "NOFM": v["K"],
        "NIFM": v["C"],
        "OFH": height,
        "OFW": width,
        "KH": v["kh"],
        "KW": v["kw"],
        "STRIDE_H": v["stride"],
        "STRIDE_W": v["stride"],
        "OFM_BLOCK": channel_block(v["K"]),
        "IFM_BLOCK": channel_block(v["C"]),
    } | ({"DILATION": reach} if reach > 1 else {})
    operations = 2.0 * images * v["K"] * v["C"] * v["kh"] * v["kw"] * height * width
    workload = row.get("network") or "conv"
    name = row.get("layer") or f"{workload}_{v['C']}x{v['K']}x{height}x{width}x{v['kh']}"
    return Problem(name, workload, resources.kernels() / "conv.c", macros, operations)


def _gemm(row: Mapping[str, str], v: Mapping[str, int]) -> Problem:
    name = f"{v['M']}x{v['N']}x{v['K']}"
    operations = 2.0 * v["M"] * v["N"] * v["K"]
    macros = {name: v[name] for name in _GEMM}
    return Problem(name, row.get("workload") or "gemm", resources.kernels() / "gemm.c", macros, operations)
