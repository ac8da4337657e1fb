"""What random programs are made of, as values: arrays, scalars, subscripts, sizes."""

from __future__ import annotations

from dataclasses import dataclass

from tests.fuzz.bounds import Poly
from tests.fuzz.values import CType

LARGEST = 35
"""No size is larger: two tiles of lanes and three."""
SIZES = (3, 0, 1, 2, 5, 7, 8, 15, 16, 17, 33, LARGEST)
"""The simplest first."""


@dataclass
class Array:
    """An array, a parameter of the function unless it is `local`."""

    name: str
    type: CType
    dims: list[Poly]
    """What subscripts reach so far, and one more."""
    fill: tuple[float, float]
    """Its values before, and those that are stored without being added to it."""
    limit: tuple[float, float]
    """Its values at any time; infinite: anything."""
    style: str = "rows"
    """Of two dimensions: `rows` of a C array, `flat` with the subscript computed, `pointers` to rows."""
    content: Poly | None = None
    """Of subscripts: they are at least zero and less than this."""
    ordered: bool = False
    """Its subscripts don't decrease: where rows begin."""
    members: tuple[tuple[str, CType], ...] = ()
    """Of an array of structures."""
    left: float = 0
    """How much may be added to elements."""
    local: bool = False

    def elements(self) -> Poly:
        done = Poly.of(1)
        for dim in self.dims:
            done = done * dim
        return done


@dataclass
class Scalar:
    """A variable of the function that is written in loops."""

    name: str
    type: CType
    fill: tuple[float, float]
    limit: tuple[float, float]
    left: float


@dataclass(frozen=True, slots=True)
class Index:
    """An integer that may be a subscript."""

    text: str
    low: Poly
    high: Poly
    """Inclusive."""
    type: CType
    plain: bool = False
    """Whether it is the variable of a loop, in which nothing writes it."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size, as a parameter of the function or a macro."""

    name: str
    type: CType
    values: tuple[int, ...]
    macro: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A C program of one function that is called. In `text` there is an @ behind the names of a file's scope."""

    text: str
    sizes: tuple[Size, ...]
    arrays: tuple[Array, ...]
    """In the order of the parameters, behind the sizes."""
    result: CType | None
    exact: bool
    """Whether floating values stay integers that every order of summation keeps, so that sums may be regrouped."""
    features: tuple[str, ...]

    def called(self, mark: str) -> str:
        """The text with names of its own."""
        return self.text.replace("@", mark)
