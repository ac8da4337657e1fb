"""Names of the marks by which isl's schedule trees tell the writer how loops run."""

PARALLEL = "parallel"
SERIAL = "serial"
COPIED = "copied"
CURVE = "curve"
ENTRIES = "entries"
SIMD = "simd"
SUM = "sum"
INSIDE = "inside"
TEAM = "team"
SHARE = "share"
WAIT = "wait"
"""Mark names: the loops from the first to the next are to be run by all threads, collapsed. After PARALLEL, CURVE,
ENTRIES and SIMD the name may go on with OpenMP clauses. CURVE stands for PARALLEL where two loops run along a
space-filling curve, ENTRIES where the rows of a loop are shared out by their entries. After SIMD, the next loop runs in
vectors; INSIDE stands between it and further loops, for isl leaves out what has one iteration. TEAM
stands around what one team of threads runs, in which SHARE stands for PARALLEL, and WAIT around a loop at whose end its
threads wait for each other."""
