"""The only door to isl: its types, and its operations with dimensions by name.

isl counts dimensions by kind and position, and a position means another loop as soon as somebody projects one out.
Here a dimension (`Dim`) goes by its name where it has one: parameters, and the iterators of a statement `S[i, j]`.
Coordinates of tuples without names go by number, from 0: of a time `[t0, …, tn]` that is the depth, of an element
`A[a0, …, an]` the subscript. isl forgets names in many operations; `named` and its like give them back.

Nothing is wrapped: the classes are isl's own for Python (`types`). The package namedisl 2026.1, which wraps them, takes
4.2 times as long over 11 operations that polydl does most (geometric mean, processor time; compositions 16 to 20
times), sorts dimensions by name, which loses lexicographic order, and has no names of tuples, unions, schedule trees
or ASTs.
"""

from __future__ import annotations

from polydl.model.isl.affine_functions import (
    coefficients,
    components,
    constant,
    coordinate,
    coordinates,
    divisors,
    everywhere,
    floor_div,
    lifted,
    linear,
    multi,
    offset,
    parameter,
    parameter_terms,
    pieces,
    quotient,
    terms,
    uses,
    value_text,
)
from polydl.model.isl.constraints import (
    divisions,
    equalities,
    interval,
    is_apart,
    is_box,
    meet,
    not_negative,
    openscop_rows,
    rows,
)
from polydl.model.isl.isl_types import (
    Aff,
    AstBuild,
    AstExpr,
    AstNode,
    BasicMap,
    BasicSet,
    Error,
    IdList,
    Map,
    MultiPwAff,
    MultiUnionPwAff,
    PwAff,
    PwMultiAff,
    PwQPolynomial,
    QPolynomial,
    Schedule,
    ScheduleConstraints,
    ScheduleNode,
    Set,
    Space,
    UnionAccessInfo,
    UnionFlow,
    UnionMap,
    UnionPwAff,
    UnionPwAffList,
    UnionSet,
    UnionSetList,
    Val,
    ast_loop_type,
    context,
    identifier,
    to_int,
    unnamed_space,
    value,
)
from polydl.model.isl.magnitudes import (
    numbers,
    piece_count,
    with_numbers,
)
from polydl.model.isl.naming import (
    arity,
    as_arguments,
    as_dimensions,
    domain_arity,
    domain_name,
    domain_named,
    domain_renamed,
    function_named,
    involved_parameters,
    named,
    parameter_space,
    parameters,
    parametric,
    range_arity,
    range_name,
    range_named,
    rename_parameter,
    renamed,
    some_values,
    without_parameters,
)
from polydl.model.isl.points import (
    agree,
    agrees,
    ascending,
    at_parameter,
    at_values,
    between,
    bounds,
    descending,
    differ,
    distance,
    domain_between,
    domain_onto,
    fix,
    fix_domain,
    function_at,
    functions_at,
    greatest,
    is_determined,
    least,
    least_pair,
    lex_extreme,
    near_multiples,
    parameter_values,
    project_onto,
    range_onto,
    sample,
    stride,
    substituted,
    symbolic_bounds,
)
from polydl.model.isl.quotas import (
    DEFAULT_QUOTA,
    quota,
)
