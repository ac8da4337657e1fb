"""The output file: helpers stand before what uses them."""

from __future__ import annotations

import polydl
from polydl.lower.emit import Generated
from polydl.lower.splice import splice

TWO_REGIONS = """\
void g(void);
void f(int n, float *restrict x, float *restrict y)
{
#pragma scop
    for (int i = 0; i < n; i++) x[i] = 1;
#pragma endscop
    g();
#pragma scop
    for (int i = 0; i < n; i++) y[i] = 2;
#pragma endscop
}
"""


def test_helpers_of_regions_of_one_function_stand_in_their_order() -> None:
    """The later region needs a helper of the earlier one, and has one that would come first in the alphabet."""
    program = polydl.load(TWO_REGIONS, sizes={"n": 10})
    first = Generated(("z_types", "m_functions"), "a();")
    second = Generated(("z_types", "a_functions"), "b();")
    text = splice(program.source, list(zip(program.scops, (first, second), strict=True)), "")
    places = [text.index(helper) for helper in ("z_types", "m_functions", "a_functions", "void f", "a();", "b();")]
    assert places == sorted(places)
    assert text.count("z_types") == 1
