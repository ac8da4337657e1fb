"""Problem sizes as data: the rows of experiments/data/*.csv."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class ConvLayer:
    """A convolution layer; columns as in experiments/data/README.md."""

    network: str
    layer: str
    ifw: int
    ifh: int
    C: int
    K: int
    kw: int
    kh: int
    pad_w: int
    pad_h: int
    stride: int
    dilation: int = 1
    """Elements between neighbours of the filter, both ways."""
    groups: int = 1
    """1, or as many as channels: depthwise."""
    blocks: tuple[int, int] | None = None
    """Channels of (output, input) that lie together in the layout; None: `channel_block` of each."""

    @property
    def name(self) -> str:
        return self.layer

    @property
    def depthwise(self) -> bool:
        return self.groups > 1

    @property
    def reach(self) -> tuple[int, int]:
        """(height, width) of the input that one output sees."""
        return (self.kh - 1) * self.dilation + 1, (self.kw - 1) * self.dilation + 1

    @property
    def ofw(self) -> int:
        return (self.ifw + 2 * self.pad_w - self.reach[1]) // self.stride + 1

    @property
    def ofh(self) -> int:
        return (self.ifh + 2 * self.pad_h - self.reach[0]) // self.stride + 1

    @property
    def padded(self) -> tuple[int, int]:
        """(height, width) of the part of the padded input that the filter reaches."""
        return (self.ofh - 1) * self.stride + self.reach[0], (self.ofw - 1) * self.stride + self.reach[1]

    @property
    def ofm_block(self) -> int:
        return self.blocks[0] if self.blocks else channel_block(self.K)

    @property
    def ifm_block(self) -> int:
        return self.blocks[1] if self.blocks else channel_block(self.C)

    def layouts(self, lanes: int = 16) -> list[tuple[int, int]]:
        """Blockings (output, input) worth considering: blocked by one to four vectors of so many lanes of channels, and
        channel by channel."""
        if self.depthwise:
            return [(channel_block(self.K), channel_block(self.K))]
        outputs = {channel_block(self.K), channel_block(self.K, 32), channel_block(self.K, 16), 1}
        outputs |= {vectors * lanes for vectors in range(1, 5) if self.K % (vectors * lanes) == 0}
        inputs = {channel_block(self.C), 1}
        return sorted(((o, i) for o in outputs for i in inputs), reverse=True)

    def operations(self, images: int) -> float:
        """Multiplications and additions."""
        return 2.0 * images * self.K * self.C / self.groups * self.kh * self.kw * self.ofh * self.ofw

    def bytes(self, images: int) -> float:
        """Least traffic with memory in fp32: input and filter read, output written."""
        height, width = self.padded
        inputs = images * self.C * height * width + self.K * self.C * self.kh * self.kw / self.groups
        return 4.0 * (inputs + images * self.K * self.ofh * self.ofw)


@dataclass(frozen=True, slots=True)
class GemmSize:
    """C[M x N] += A[M x K] B[K x N]."""

    workload: str
    M: int
    N: int
    K: int

    @property
    def name(self) -> str:
        return f"{self.M}x{self.N}x{self.K}"

    @property
    def operations(self) -> float:
        return 2.0 * self.M * self.N * self.K

    @property
    def bytes(self) -> float:
        """Least traffic with memory in fp32: A and B read, C read and written."""
        return 4.0 * (self.M * self.K + self.K * self.N + 2 * self.M * self.N)


def channel_block(channels: int, most: int = 64) -> int:
    """The largest divisor of `channels` up to `most` that is a multiple of 16, or else the largest divisor."""
    divisors = [d for d in range(1, min(channels, most) + 1) if channels % d == 0]
    return max((d for d in divisors if d % 16 == 0), default=divisors[-1])


def conv_layers(path: Path = DATA / "conv_layers.csv", networks: tuple[str, ...] = ()) -> list[ConvLayer]:
    """Layers of the given networks (all when none is named), in file order. Raises ValueError for an unknown one, and
    for columns that are missing."""
    needed = [field.name for field in fields(ConvLayer) if field.default is MISSING]
    rows = [
        ConvLayer(row.pop("network"), row.pop("layer"), **{name: int(value) for name, value in row.items()})
        for row in rows_of(path, needed)
    ]
    for row in rows:
        if row.groups != 1 and not row.groups == row.C == row.K:
            raise ValueError(f"{row.layer} in {path} has {row.groups} groups: 1, or as many as both channels")
    known = {row.network for row in rows}
    if unknown := set(networks) - known:
        raise ValueError(f"no network {', '.join(sorted(unknown))} in {path}: it has {', '.join(sorted(known))}")
    return [row for row in rows if not networks or row.network in networks]


def gemm_sizes(path: Path = DATA / "gemm_sizes.csv") -> list[GemmSize]:
    """Sizes in file order. Raises ValueError for columns that are missing."""
    rows = rows_of(path, ("workload", "M", "N", "K"))
    return [GemmSize(r["workload"], int(r["M"]), int(r["N"]), int(r["K"])) for r in rows]


def rows_of(path: Path, needed: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file by column. Raises ValueError, naming the file, for columns that it lacks."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        if lacking := [name for name in needed if name not in columns]:
            has = ", ".join(columns) or "none"
            raise ValueError(f"{path} lacks the column{'s' * (len(lacking) > 1)} {', '.join(lacking)}: it has {has}")
        return list(reader)
