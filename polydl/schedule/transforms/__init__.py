"""The transforms, each in a file of its own; a new one is a file and a place in `AnyTransform`."""

from polydl.schedule.transforms.fuse import Fuse
from polydl.schedule.transforms.microkernel import Microkernel
from polydl.schedule.transforms.pack import Pack
from polydl.schedule.transforms.parallelize import Parallelize
from polydl.schedule.transforms.permute import Permute
from polydl.schedule.transforms.schedule import Schedule
from polydl.schedule.transforms.tile import Tile
from polydl.schedule.transforms.vectorize import Vectorize

AnyTransform = Tile | Microkernel | Permute | Parallelize | Pack | Fuse | Vectorize | Schedule
"""What a recipe may hold."""

__all__ = [
    "AnyTransform",
    "Fuse",
    "Microkernel",
    "Pack",
    "Parallelize",
    "Permute",
    "Schedule",
    "Tile",
    "Vectorize",
]
