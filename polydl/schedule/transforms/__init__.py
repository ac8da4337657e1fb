"""The transforms, each in a file of its own; a new one is a file, a place in `AnyTransform` and, where it is to be
tried with every structure, one in `CHOICES`."""

from polydl.schedule.limits import Choices
from polydl.schedule.transforms import pack, parallelize, permute
from polydl.schedule.transforms.fuse import Fuse
from polydl.schedule.transforms.merge import Merge
from polydl.schedule.transforms.pack import Pack
from polydl.schedule.transforms.parallelize import Parallelize
from polydl.schedule.transforms.permute import Permute
from polydl.schedule.transforms.register_block import Microkernel
from polydl.schedule.transforms.schedule import Schedule
from polydl.schedule.transforms.tile import Tile
from polydl.schedule.transforms.vectorize import Vectorize

AnyTransform = Tile | Microkernel | Permute | Parallelize | Pack | Fuse | Vectorize | Schedule | Merge
"""What a recipe may hold."""

CHOICES: tuple[Choices, ...] = (permute.choices, parallelize.choices, pack.choices)
"""What is tried with every body of tiles and microkernels, one after the other."""

__all__ = [
    "CHOICES",
    "AnyTransform",
    "Fuse",
    "Merge",
    "Microkernel",
    "Pack",
    "Parallelize",
    "Permute",
    "Schedule",
    "Tile",
    "Vectorize",
]
