"""Working sets as polynomials of the parameters, where the shapes allow it (Algorithm 1, parametric).

The same definition as `polydl.locality.exact`, written with isl's lexicographic order instead of explicit pieces:
plainer, slower, and free of any assumption on sizes. With no parameters it serves as the reference of the other.
"""

from __future__ import annotations

from polydl.base.records import dataclass
from polydl.locality.exact import Kind, carried_by
from polydl.model import isl
from polydl.model.counting import count_symbolic, format_symbolic
from polydl.model.isl import DEFAULT_QUOTA, quota
from polydl.model.nest import TimedNest


@dataclass(frozen=True, slots=True)
class SymbolicWorkingSet:
    """As `polydl.locality.exact.WorkingSet`, with sizes in elements as functions of the parameters."""

    kind: Kind
    array: str
    source_statement: str
    target_statement: str
    carried_by: str
    min: str | None
    """`2*K + 3`, or cases `{ … if …; … }`; None when the size has no closed form here."""
    max: str | None


def working_sets(
    nest: TimedNest, known: isl.Set | None = None, operations: int = DEFAULT_QUOTA
) -> tuple[SymbolicWorkingSet, ...]:
    """Algorithm 1 with parameters left symbolic.

    `known` is the parameter set of what holds for the parameters. Where it is given, only dependences that exist for
    all its values are simplified away from their cases; it is also narrowed to the values for which the dependence
    exists at all, so that a matmul's sizes print without `if N >= 2`.

    Raises QuotaExceeded when an isl operation takes more than `operations`.
    """
    domain = nest.domain if known is None else nest.domain.intersect_params(known)
    relations = [access.relation.intersect_domain(domain) for access in nest.accesses]
    touched: dict[str, isl.Map] = {}
    for access, relation in zip(nest.accesses, relations, strict=True):
        touched[access.array] = touched[access.array].union(relation) if access.array in touched else relation
    parallel = [i for i, loop in enumerate(nest.loops) if loop in nest.parallel]
    found = []
    for source, source_relation in zip(nest.accesses, relations, strict=True):
        for target, target_relation in zip(nest.accesses, relations, strict=True):
            if source.array != target.array:
                continue
            with quota(f"the dependences on {source.array}", operations):
                same_element = source_relation.apply_range(target_relation.reverse())
                for loop in range(len(nest.loops)):
                    carried = same_element.intersect(carried_by(domain.get_space(), loop))
                    if carried.is_empty():
                        continue
                    low, high = _sizes(carried, loop, domain, touched, parallel)
                    found.append(
                        SymbolicWorkingSet(
                            Kind.of(source.write, target.write),
                            source.array,
                            source.statement,
                            target.statement,
                            nest.loops[loop],
                            low,
                            high,
                        )
                    )
    return tuple(found)


def _sizes(
    carried: isl.Map, loop: int, domain: isl.Set, touched: dict[str, isl.Map], parallel: list[int]
) -> tuple[str | None, str | None]:
    exists = carried.params()
    source = carried.domain().lexmin()
    targets = source.apply(carried)
    for position in parallel:
        if position == loop or (position > loop and not isl.agrees(carried, position)):
            same_prefix = isl.agree(isl.Map.universe(domain.get_space().map_from_set()), range(position))
            whole = _size(source.apply(same_prefix).intersect(domain), touched, exists)
            return whole, whole
    after_source = source.lex_le_set(domain).range()
    low, high = (
        _size(after_source.intersect(target.lex_ge_set(domain).range()), touched, exists)
        for target in (targets.lexmin(), targets.lexmax())
    )
    return low, high


def _size(times: isl.Set, touched: dict[str, isl.Map], exists: isl.Set) -> str | None:
    whole: isl.PwQPolynomial | None = None
    for relation in touched.values():
        size = count_symbolic(times.apply(relation).intersect_params(exists).coalesce())
        if size is None:
            return None
        whole = size if whole is None else whole.add(size)
    return "0" if whole is None else format_symbolic(whole, exists)
