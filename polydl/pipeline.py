"""The whole of polydl, top to bottom: the file to open first.

C text ─ frontend ─▶ Scop ─ dependences ─▶ search: Variant = (program, recipe, tree) ─ rank ─▶ order
                                                                                               │ top k
C text ◀─ lower ◀─ isl AST ◀─ schedule tree ◀──────────────────────────────────────────────────┘
   └─ measure: build, run, check, time ─▶ report
"""

from __future__ import annotations

import math
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from polydl.base.collecting import rarely_collected
from polydl.base.effort import Effort
from polydl.base.errors import NotMeasurable, PolyDLError, QuotaExceeded, Span, ToolchainError
from polydl.base.output_files import output_path, write
from polydl.base.recursion import deep
from polydl.dependences.nests import nests
from polydl.frontend import Program
from polydl.frontend.inline import is_c, located
from polydl.kernels.pack_ahead import checked, one_region_each
from polydl.lower.header import header
from polydl.lower.splice import splice
from polydl.measure import Compilation, Progress, Toolchain, check_compiles, measure
from polydl.measure.given_data import check_names
from polydl.measure.slices import original_slices
from polydl.measure.source_check import Checked
from polydl.model.scop import Assignment, Scop
from polydl.options import OptionChanges, Options, RankChanges
from polydl.rank import rankers
from polydl.rank.estimator import Estimator
from polydl.rank.ranker import Ranker
from polydl.results import FuseResult, Optimized, OptimizeResult, Ranking
from polydl.rewrite.canonical import canonical
from polydl.schedule.fused_scop import FusedScop
from polydl.schedule.fused_scop import fuse as fuse_scop
from polydl.schedule.loopstring import nests_named
from polydl.schedule.notation import Written
from polydl.search import own_times
from polydl.search.beside_source import called_beside_source, runs_here
from polydl.search.choose_measured import choose
from polydl.search.fused_variants import fused_variants
from polydl.search.legal_ways import Ways, ways
from polydl.search.loading import load, load_sized, only_scop, program_of, scop_of, with_sizes
from polydl.search.merged_variants import merged_variants
from polydl.search.proofs import proof_of
from polydl.search.sizes.code import EverySize, Timer
from polydl.search.sizes.curve import Curved, curve_over
from polydl.search.sizes.find import code_for_other_sizes, timer_of
from polydl.search.timing_order import TimingOrder, codes_of, compiled
from polydl.search.variant import Origin, Variant
from polydl.target import Machine

if TYPE_CHECKING:
    from polydl.prove import Proof

__all__ = (
    "at_other_sizes", "fuse", "load", "load_sized", "only_scop", "optimize", "rank", "rank_by_each", "scop_of", "score",
    "with_curve", "with_fused",
)  # fmt: skip

_FOR_VARIANTS = 0.5
"""What part of the budget is for variants where a curve is asked for, too; half as much is for timing those for any
size, and what is left for the curve."""
_FOR_TUNED = 0.75
"""What part of the budget is for variants at the tuned size, where none is asked for: what is left is for timing those
for any size."""


@deep()
@rarely_collected()
def rank(
    source: str | Path | Program | Scop,
    space: str | None = None,
    machine: str | Path | Machine | None = None,
    ranker: str | Ranker | None = None,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    **changes: Unpack[RankChanges],
) -> Ranking:
    """Rank the legal variants of a scop; nothing is compiled or run.

    `source` is a scop, or a program or C (a file, or its text) with exactly one. `space` is `small`, `default` or
    `wide`; `machine` a preset, a TOML file or a `Machine` (None: this one); `ranker` a name, a file of weights or a
    `Ranker` of your own.
    Those that are None, and everything else, come from `options` and from keywords, which are fields of `Options`.
    `progress` is called as ("rank", steps done, steps at most). Raises InputError, QuotaExceeded.

    >>> import polydl
    >>> program = polydl.load("examples/matmul.c", defines={"M": 1024, "N": 1024, "K": 1024})
    >>> table = polydl.rank(program.scops[0], "small", "xeon-8480plus", "traffic", threads=4)
    >>> bool(table[0].score == min(table["score"]))
    True
    """
    if isinstance(space, Options):
        raise TypeError("options are given by keyword: rank(source, options=…)")
    o = (options or Options()).changed(**changes).changed(**_named(space, machine, ranker))
    read, o = scop_of(source, o)
    start = time.perf_counter()
    given = isinstance(machine, Machine)
    machine = machine if isinstance(machine, Machine) else o.target()
    threads = o.threads or (machine.cores if given else o.thread_count(machine))
    ranker = rankers.usable(o.ranker) if ranker is None or isinstance(ranker, str) else ranker
    if o.schedule is not None:
        from polydl.exchange.schedule_file import ranking_from_file

        return ranking_from_file(read, Path(o.schedule), machine, threads, o)
    if o.loops:
        written = (Written(o.loops, "--loops"), Written(o.blocks, "--blocks"))
        named = score(read, [written], replace(o, threads=threads), machine=machine, ranker=ranker)
        checked(named.scop, named.nests, o.prepack)
        return named
    tell = partial(progress, "rank") if progress else None
    return _ranking(ways(read, o, machine, threads, tell), ranker, o, start)


def rank_by_each(source: Scop, names: Sequence[str], options: Options) -> dict[str, Ranking]:
    """What `rank` answers with each of several rankers, by their names; the variants are searched once. A ranker
    that would count too long is left out, with a warning, unless it is the one that the options ask for.

    Raises InputError, QuotaExceeded.
    """
    if options.schedule is not None or options.loops:
        return {name: rank(source, ranker=name, options=options) for name in names}
    start = time.perf_counter()
    machine = options.target()
    found = ways(source, options, machine, options.threads or options.thread_count(machine))
    ranked: dict[str, Ranking] = {}
    for name in names:
        ranker = rankers.usable(name)
        long = rankers.takes_long(ranker, found.program.scop, found.nests, found.structures)
        if long and name != options.ranker:
            warnings.warn(f"{name} is left out: {long} (--space small has fewer)", rankers.RankerWarning, stacklevel=2)
        else:
            ranked[name] = _ranking(found, ranker, options, start)
    return ranked


def _ranking(found: Ways, ranker: Ranker, o: Options, start: float) -> Ranking:
    """The ways to run a program in the order of a ranker; `start`: when the search began."""
    estimator = Estimator(found.program.scop, found.nests, found.machine, found.threads, ranker)
    ranked = found.variants(estimator, o)
    seconds = time.perf_counter() - start
    return Ranking(
        found.program, found.nests, ranked, found.count, found.pruned, found.machine, ranker.name, found.threads,
        seconds, found.given_up, ranges=_ranges(found.program.read, o),
    )  # fmt: skip


def _ranges(scop: Scop, o: Options) -> dict[str, range]:
    """Those sizes of a scop that are ranges."""
    names = [guard.name for guard in scop.guards if not guard.macro]
    return {name: values for name, values in o.sizes.items() if isinstance(values, range) and name in names}


@deep()
@rarely_collected()
def score(
    source: Scop,
    lines: Sequence[tuple[Written, Written]],
    options: Options | None = None,
    *,
    machine: Machine | str | None = None,
    ranker: Ranker | None = None,
    **changes: Unpack[RankChanges],
) -> Ranking:
    """Score the variants that loop strings with their blocks name; nothing is compiled or run.

    `machine`: a preset, a TOML file or a `Machine`. The result's variants are in the order of the lines, not in that of
    their scores. A nest that a loop string names is one of the program as it is searched, as `rank` and `explain` show
    it, or of the program as it is written; the loops of one without a name are those of the program as it is written.
    Raises InputError with the place in the text, IllegalVariant (naming the dependence), several of them as
    InputErrors; QuotaExceeded.
    """
    o = (options or Options()).changed(**changes)
    start = time.perf_counter()
    if isinstance(machine, str):
        o = o.changed(machine=machine)
    machine = machine if isinstance(machine, Machine) else o.target()
    threads = o.thread_count(machine)
    named = frozenset(name for loops, _ in lines for name in nests_named(loops))
    program = canonical(source, reassociate=o.reassociate, names=named)
    scop, found = program.scop, program.dependences
    parts = nests(scop, found)
    ranker = ranker or rankers.usable(o.ranker)
    estimator = Estimator(scop, parts, machine, threads, ranker)
    from polydl.search.scoring import scored

    variants = scored(Origin(scop, found, o.reassociate, o.scratch), parts, lines, estimator)
    seconds = time.perf_counter() - start
    ranges = _ranges(program.read, o)
    return Ranking(program, parts, variants, len(variants), {}, machine, ranker.name, threads, seconds, ranges=ranges)


def _named(space: str | None, machine: str | Path | Machine | None, ranker: str | Ranker | None) -> OptionChanges:
    """Those of the three that are given by name, as options."""
    named: OptionChanges = {}
    if space is not None:
        named["space"] = space
    if isinstance(machine, str | Path):
        named["machine"] = machine
    if isinstance(ranker, str):
        named["ranker"] = ranker
    return named


def at_other_sizes(ranking: Ranking, o: Options) -> Optimized:
    """The best ranked variant, and what runs at other sizes than its own (`Optimized.at`, `other_sizes`); nothing is
    compiled or run."""
    best = ranking.variants[0] if ranking.variants else None
    others = _other_sizes(ranking, best, o) if best is not None else ""
    return Optimized(ranking, None, best, (), other_sizes=others)


def _other_sizes(ranking: Ranking, chosen: Variant, o: Options, timer: Timer | None = None) -> EverySize | str:
    searched = (chosen, *ranking.variants)
    return code_for_other_sizes(ranking.program.read, o, searched, ranking.machine, ranking.threads, timer)


@deep()
@rarely_collected()
def optimize(
    source: str | Path | Program | Scop,
    output: str | Path | None = None,
    options: Options | None = None,
    *,
    run: bool = True,
    progress: Progress | None = None,
    **changes: Unpack[OptionChanges],
) -> OptimizeResult:
    """Optimise every scop of a C file and write the result.

    `source` is a C file or C itself, or a program or scop that was read from it or built (`polydl.build`). The output
    (default: FILE.polydl.c beside the input; none for what is no file) has the same functions with the same signatures.
     With run=False the best ranked variant is written without being measured, and only if `output` is
    given; where there is a compiler, it reads the text for errors, without making code. When none of the variants of
    any scop computes what the original computes, nothing is written (`OptimizeResult.output`). An integer parameter
    without a size may have every value (`OptimizeResult.any_value`).
    Keywords are fields of `Options`. Of `budget` each scop gets an equal share of what those before it left over.
    A scop that cannot be run, or is too much to analyse, stays as it is where another one can (`OptimizeResult.unread`
    says so). Raises InputError, ToolchainError, QuotaExceeded; nothing is written then.
    """
    o = (options or Options()).changed(**changes)
    begin = time.perf_counter()
    in_memory = isinstance(source, Program | Scop) or is_c(source)
    if not isinstance(source, Program | Scop):
        source, folders = located(source)
        o = o.including(folders)
    toolchain = o.toolchain()
    given = o
    program, o = program_of(source, given)
    target = output_path(program.source.path, output) if output is not None or (run and not in_memory) else None
    program = replace(program, scops=one_region_each(program.scops, o.prepack))
    check_names(program.scops, o.data)
    reading = time.perf_counter() - begin
    weight = sum(scop.weight for scop in program.scops)
    budget = math.inf if o.budget is None else o.budget
    less = _less(program.scops, o.effort, budget)
    o = o.changed(effort=o.effort.of_file(weight).within(budget / max(1, len(program.scops))))
    done: list[Optimized] = []
    failed: list[tuple[Scop, PolyDLError]] = []
    for scop in program.scops:
        left = budget - sum(one.spent for one in done)
        share = max(0.0, left) / (len(program.scops) - len(done) - len(failed))
        share *= _FOR_VARIANTS if o.curve else 1
        try:
            done.append(_optimize_scop(scop, o, share, run=run, progress=progress))
        except (ToolchainError, QuotaExceeded, NotMeasurable) as error:
            failed.append((scop, error))
    if not done:
        raise failed[0][1]
    checking = time.perf_counter()
    text = _spliced(program, done, o)
    if run or shutil.which(toolchain.cc):
        # What was compiled piece by piece is read once more as a whole: names might meet.
        whole = run and not all(one.compiled for one in done)
        diagnostics = check_compiles(text, toolchain, program.source, object_code=whole)
        if diagnostics.late and any(one.code is not None and one.code.otherwise for one in done):
            # At other sizes the loops run as they are written.
            why = f"of code for other sizes {diagnostics.message.removeprefix('error: ')}"
            done = [one if isinstance(one.other_sizes, str) else replace(one, other_sizes=why) for one in done]
            text = _spliced(program, done, o)
            diagnostics = check_compiles(text, toolchain, program.source, object_code=whole)
        if diagnostics.late:
            less = "; ".join(filter(None, (less, f"of the whole output {diagnostics.message.removeprefix('error: ')}")))
            diagnostics = check_compiles(text, toolchain, program.source, object_code=False)
        if not diagnostics.ok and not diagnostics.late:
            raise _does_not_compile(diagnostics, program, toolchain)
    checking = time.perf_counter() - checking
    calling = time.perf_counter()
    own = [(d.ranking.program.read, d.other_sizes) for d in done if d.code is not None]
    checked = called_beside_source(program.source, text, own, o) if o.oracle and runs_here(o) else Checked()
    if checked.faults:
        wrong = {fault.function for fault in checked.faults}
        done = [d.as_written() if d.ranking.scop.function in wrong else d for d in done]
        text = _spliced(program, done, o)
    calling = time.perf_counter() - calling
    if o.curve:
        spent = sum(d.report.spent for d in done if d.report is not None)
        rest = max(0.0, budget - spent) / 2 / len(done)
        done = [with_curve(one, o, rest if run else None, progress) for one in done]
    written = target if any(d.usable for d in done) else None
    if written is not None:
        write(written, text)
    total = time.perf_counter() - begin
    reports = [d.report for d in done if d.report is not None]
    seconds = {
        "analysis": reading + sum(d.analysis_seconds for d in done),
        "compile": checking + sum(r.compile_seconds for r in reports),
        "measure": sum(r.verify_seconds + r.measure_seconds for r in reports),
        "check": calling,
        "other sizes": sum(d.others_seconds for d in done),
        "total": total,
    }
    without = {name: value for name, value in o.tuned.items() if name not in given.sizes}
    unread = (
        *(_unread(why, why.span) for why in program.unread),
        *(_unread(why, why.span or scop.span) for scop, why in failed),
    )
    refused = tuple(_unread(why, why.span) for why in program.refused)
    return OptimizeResult(written, text, tuple(done), seconds, budget, without, unread, less, checked, refused)


def _spliced(program: Program, done: Sequence[Optimized], o: Options) -> str:
    """The text of the output."""
    pieces = [(d.ranking.scop, d.code) for d in done]
    head = header(o.command, (one.target for one in done), (one.described for one in done))
    return splice(program.source, pieces, head)


def _does_not_compile(diagnostics: Compilation, program: Program, toolchain: Toolchain) -> ToolchainError:
    """What the compiler says of the output; of the input, where it does not take that either."""
    source = program.source
    given = check_compiles(source.text, toolchain, source, name=str(source.path), object_code=False)
    if given.ok:
        return ToolchainError(f"the output does not compile: {diagnostics.message}")
    return ToolchainError(f"'{toolchain.cc}' does not compile the input: {given.message}")


def _less(scops: Sequence[Scop], effort: Effort, budget: float) -> str:
    """How much less is done than in small files without a limit, for people; empty: nothing."""
    statements = [statement for scop in scops for statement in scop.statements]
    accesses = sum(len(statement.accesses) for statement in statements)
    found = f"with {len(statements)} statement{'s' if len(statements) > 1 else ''} of {accesses} accesses"
    done = "the search for schedules, fused variants and other sizes, and the timing of long ones, did about"
    part = effort.part(sum(scop.weight for scop in scops))
    said = [] if part == 1 else [f"{found}, {done} {part:.0%} of the usual"]
    within = effort.part_within(budget / max(1, len(scops)))
    regions = f"{len(scops)} regions" if len(scops) > 1 else "a region"
    if within < 1:
        said.append(f"with {budget:g} s for {regions}, the search for other sizes did about {within:.0%} of the usual")
    return "; ".join(said)


def _unread(why: PolyDLError, where: Span | None) -> str:
    hint = f"; {why.hint}" if why.hint else ""
    return f"{where}: these loops stay as they are: {why.reason}{hint}"


@rarely_collected()
def with_fused(ranking: Ranking, o: Options, progress: Progress | None = None) -> Ranking:
    """The ranking with variants that have nests fused or in rows (polydl.search.fused_variants), or that share loops
    (polydl.search.merged_variants), and with those of one thread, where starting several takes longer than they save;
    all in the order of their scores. Raises QuotaExceeded."""
    if not o.fuse or o.loops or o.schedule is not None:
        return ranking
    found = _fused(ranking, o, progress)
    if not (_all_known(found.scop) and _short(found)):
        return found
    one = o.changed(threads=1)
    start = time.perf_counter()
    alone = _ranking(ways(ranking.program, one, ranking.machine, 1), rankers.usable(one.ranker), one, start)
    alone = _fused(alone, one, None, found.fused)
    every = {variant.id: variant for variant in (*alone.variants, *found.variants)}
    return replace(found, variants=tuple(sorted(every.values(), key=lambda variant: variant.score)))


def _all_known(scop: Scop) -> bool:
    """Whether estimates have all that a program does: what its own microkernels and other functions do takes none of
    their time."""
    return all(isinstance(statement.body, Assignment) for statement in scop.statements)


def _short(ranking: Ranking) -> bool:
    """Whether starting threads takes longer than what they save, by the best estimate: one thread's share of the rest
    is what each of the others does."""
    best = ranking.variants[0].estimate.seconds if ranking.variants else {}
    forks = best.get("forks", 0.0)
    return forks > (ranking.threads - 1) * (sum(best.values()) - forks)


def _fused(ranking: Ranking, o: Options, progress: Progress | None, fused: FusedScop | None = None) -> Ranking:
    """The ranking with variants that have nests fused, in rows, or that share loops. `fused`: the program with its
    nests fused, where that is known."""
    fused = fused or fuse_scop(ranking.scop, contractions=False)
    tell = (lambda stage, done, steps: progress("fuse", done, steps)) if progress else None
    base = rank(fused.scop, options=o, progress=tell) if fused.changed else ranking
    estimator = Estimator(base.scop, base.nests, base.machine, base.threads, rankers.usable(o.ranker))
    found, refused = fused_variants(base.variants, fused, estimator, o.effort)
    best = sorted([*found, *base.variants], key=lambda variant: variant.score)
    merging = merged_variants(best, estimator, o)
    notes = (*ranking.given_up, *(f"not fused: {reason}" for reason in refused), *merging.refused)
    variants = tuple(sorted([*merging.variants, *found, *ranking.variants], key=lambda variant: variant.score))
    return replace(ranking, variants=variants, given_up=notes, fused=fused, apart=merging.apart)


def fuse(
    path: str | Path,
    output: str | Path | None = None,
    options: Options | None = None,
    **changes: Unpack[OptionChanges],
) -> FuseResult:
    """Fuse what can be fused in every scop of a C file and write the result: no search, nothing is run.

    Element-wise nests move into the first and last iterations of reductions (PolyDL, algorithm 3), neighbouring nests
    become one where the dependences allow it. The output (default: FILE.polydl.c) computes the same for every value of
    the parameters. Raises InputError, QuotaExceeded.
    """
    o = (options or Options()).changed(**changes)
    program = load(Path(path), o, require_sizes=False)
    target = output_path(Path(path), output)
    from polydl.search.fuse_file import fused_file

    text, done = fused_file(program, o)
    write(target, text)
    return FuseResult(target, text, done)


def timing_order(ranking: Ranking, o: Options) -> TimingOrder:
    """The rounds in which `optimize` times the variants of a scop, before any is timed."""
    correction = own_times.learned(ranking.machine, ranking.threads) if o.learn else None
    return TimingOrder(ranking.variants, o.top_k, o.effort.measured, _prover(ranking, o), correction)


def _prover(ranking: Ranking, o: Options) -> Callable[[Variant], Proof] | None:
    return (lambda variant: proof_of(ranking.program, variant, o)) if o.prove else None


def _optimize_scop(scop: Scop, o: Options, seconds: float, *, run: bool, progress: Progress | None) -> Optimized:
    """`seconds`: for compiling, checking and timing the variants."""
    begin = time.perf_counter()
    ranking = with_fused(rank(scop, options=o, progress=progress), o, progress)
    known = _all_known(ranking.scop)
    blind = TimingOrder(ranking.variants, 1, o.effort.measured, _prover(ranking, o), as_written=known)
    order = timing_order(ranking, o) if run else blind
    variants = order.next({})
    slices = original_slices(scop) if run and order.most > 1 and variants else ()
    analysis_seconds = time.perf_counter() - begin
    if not run:
        for_others = time.perf_counter()
        others = _other_sizes(ranking, variants[0], o) if variants else ""
        chosen = variants[0] if variants else None
        done = Optimized(ranking, None, chosen, order.illegal, order.proofs, analysis_seconds, others)
        return replace(done, others_seconds=time.perf_counter() - for_others)
    options = replace(o.measuring(ranking.threads), seconds=seconds * (1 if o.curve else _FOR_TUNED), originals={})
    report = measure(scop, codes_of(variants), o.toolchain(), options, progress, slices, order.more)
    variants = order.chosen
    if o.learn and not o.data:
        own_times.keep(scop, report, variants, ranking.machine, ranking.threads, o.toolchain())
    if len(variants) < order.most and compiled(variants) > o.effort.measured:
        few = f"of long variants {len(variants)} are timed, not {order.most}: a compiler takes seconds for each"
        ranking = replace(ranking, given_up=(*ranking.given_up, few))
    chosen = choose(report, variants, ranking.variants)
    for_others = time.perf_counter()
    left = seconds / 2 if o.curve else max(0.0, seconds - report.spent)
    timer = timer_of(scop, o, report, ranking.machine, replace(options, seconds=left, data={}))
    others = _other_sizes(ranking, chosen, o, timer) if chosen is not None else ""
    done = Optimized(
        ranking, report, chosen, order.illegal, order.proofs, analysis_seconds, others, why_timed=order.why,
        correction=order.correction,
    )  # fmt: skip
    code = done.code
    whole = code is None or not (code.outside or code.otherwise)
    for_others = time.perf_counter() - for_others
    # What takes longer takes nothing from the regions that follow: how much is done is decided by counts.
    spent = min(for_others, max(0.0, seconds - report.spent))
    return replace(done, compiled=whole, others_seconds=for_others, others_spent=spent)


def with_curve(done: Optimized, o: Options, seconds: float | None, progress: Progress | None = None) -> Optimized:
    """The same with the output timed at `Options.curve` sizes, within so many seconds, or estimated (None)."""
    ranking, scop, tuned = done.ranking, done.ranking.program.read, done.tuned_sizes
    if done.code is None or not tuned:
        return done
    plain = replace(o, loops="", blocks="", schedule=None)

    def tuned_for(there: Scop) -> Variant | None:
        found = rank(there, options=plain)
        return found.variants[0] if found.variants else None

    once = done.report.original.median if done.report is not None else math.nan
    of = Curved(scop, done.code, once, done.at, lambda sizes: with_sizes(scop, o, sizes), tuned_for)
    how = None if seconds is None else replace(o.measuring(ranking.threads), seconds=seconds, data={})
    tell = partial(progress, "curve") if progress else None
    return replace(done, curve=curve_over(ranking.ranges, tuned, of, ranking.machine, o, how, tell))
