"""What a row gathers: sums, products, least and greatest values, each in one vector or several at a time.

What C computes one column after the other, each lane computes of its own columns; at the end the lanes become one.
Sums and products may round otherwise then (reassociation). The least and the greatest value come out to the bit:
`x > m ? x : m` leaves m where x is NaN, and a NaN that m starts from stays in every lane, as it does in C. Of equal
values only zeros have different bits; C keeps the first, so a row whose result is zero looks for it
(`Accumulator.search`). fmax and fmin leave the sign of zeros open, in C as here.
"""

from __future__ import annotations

from polydl.base.records import dataclass
from polydl.model.combiners import Combiner

MOST_TOGETHER = 4
"""Vectors that a row takes at a time, at most: an addition is done after four cycles (Isa.latency), and a core starts
one or two in each."""
_MOST_ACCUMULATORS = 8
"""Vectors that are accumulated in, of all kinds: half of the registers of the smallest instruction set."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A value that a row gathers, and where it belongs."""

    name: str
    combiner: Combiner
    place: str
    """The address that holds it before and after."""
    op: str
    """Operator that takes a sum or a product there; `=` of the others."""
    x: str
    """Plain C of one column's value; empty where no column's bits are wanted."""
    before: tuple[str, ...] = ()
    """Plain C of what its column makes before."""
    beside: tuple[tuple[str, str], ...] = ()
    """(address, plain C of the value that goes there) of what is kept of the column that has the greatest value."""
    vector_x: tuple[tuple[str, ...], str] = ((), "")
    """C of the vectors that a step makes before, and of the vector that it looks at."""
    guarded: str = ""
    """C of the vector with one more where that is under conditions; empty where it is under none."""
    scanned: bool = False
    """Whether each column's running value is used: lanes hold what all columns before have made, not a part each."""
    last: bool = False
    """Whether the last column that has the greatest value counts, for what is kept beside it."""
    turned: bool = False
    """Whether columns are counted from the last iteration on (`Printed.turned`)."""
    worst: str = ""
    """C of the worst value of the lanes' type, which lanes start from where what there was may be of a longer type, or
    as good as what is found; empty: they start from what there was."""

    @property
    def content(self) -> tuple[object, ...]:
        """What tells it from others."""
        kept = (self.x, self.before, self.beside, self.vector_x, self.last, *("scanned",) * self.scanned)
        kept += (self.worst,) * bool(self.worst) + ("turned",) * self.turned
        return (self.name, self.combiner.name, self.place, self.op, *kept)

    @property
    def search(self) -> tuple[tuple[str, ...], str] | None:
        """Plain C of what a column makes and of its value, where the bits of a zero are those of the first column that
        has one; None: of any."""
        return (self.before, self.x) if self.x and not self.beside else None

    @property
    def downwards(self) -> bool:
        """Whether the column that counts, of several with the value found, is looked for from the last one on."""
        return self.last != self.turned

    def takes(self, x: str) -> str:
        """C of the question whether x takes the place of what there was."""
        return self.combiner.takes(x, f"*{self.place}", last=self.last)

    def start(self, vector: str) -> str:
        """C of the vector to start from."""
        return f"{vector}_all(*{self.place})" if self.scanned else self.idle(vector)

    def idle(self, vector: str) -> str:
        """C of a vector that changes nothing, whatever has been gathered before."""
        neutral = self.combiner.neutral
        if neutral == "0":
            return f"{vector}_zero()"
        return f"{vector}_all({self.worst or (f'*{self.place}' if neutral is None else neutral)})"

    def taken(self, vector: str, x: str, mine: str) -> str:
        """C of the vector with one more."""
        return self.combiner.step.format(v=vector, m=mine, x=x)

    def line(self, vector: str, value: str) -> str:
        """C of one step: lanes beyond a remainder change nothing."""
        neutral = self.idle(vector)
        if self.combiner.neutral is not None:
            more = self.taken(vector, f"(cut ? {vector}_keep(part, polydl_x, {neutral}) : polydl_x)", f"*{self.name}")
        else:
            better = self.guarded or self.taken(vector, "polydl_x", f"*{self.name}")
            more = f"cut ? {vector}_keep(part, {better}, *{self.name}) : {better}"
        return f"{{ const {vector} polydl_x = {value}; *{self.name} = {more}; }}"

    def running(self, vector: str, x: str) -> str:
        """C of the vector of running values up to each column, those of this step included; x: the variable with the
        step's values."""
        given = f"cut ? {vector}_keep(part, {x}, {self.idle(vector)}) : {x}"
        return f"{vector}_scan_{self.combiner.gather}({self.name}, {given}, {self.idle(vector)})"

    def gathered(self, vector: str) -> str:
        """C of the one value that the lanes make."""
        return f"{vector}_{'scanned_' if self.scanned else ''}{self.combiner.gather}({self.name})"


def together(accumulators: int, cycles: float) -> int:
    """Vectors that a row takes at a time, each with accumulators of its own, so that none waits for the last: a step
    takes so many cycles without waiting."""
    wanted = 1
    while (
        wanted < MOST_TOGETHER and wanted * cycles < MOST_TOGETHER and 2 * wanted * accumulators <= _MOST_ACCUMULATORS
    ):
        wanted *= 2
    return wanted if accumulators else 1
