"""Wrong variants are caught before they are timed: by the legality check, by the proof, or by the verification runs."""

from __future__ import annotations

from collections import Counter

import pytest

from polydl.lower.emit import Generated
from polydl.measure import Status
from tests.prove import mutations

TEXTS = {
    "gemm_nt": ["_pack_"],
    "lu": ["parallel for"],
    "dot": ["polydl_sum"],
    "trisolv": ["polydl_sum"],
}
SCHEDULES = {"lu": ["parallel for"], "seidel_1d": ["c2"]}
CAUGHT = {"gemm_nt": 7, "lu": 5, "dot": 11, "trisolv": 8}
"""How many are caught at least."""
SEED = 3


def texts(program: str) -> Counter[str]:
    """Which net caught the mutants of a program; an assertion fails for one that none catches."""
    caught: Counter[str] = Counter()
    for subject in mutations.subjects(program, TEXTS[program]):
        assert subject.mutant(subject.named)[0].holds, program
        left: list[tuple[str, str, Generated]] = []
        for kind, what, text in mutations.mutants(subject, mutations.KINDS, SEED, 2 if program == "dot" else 1):
            proof, code = subject.mutant(text)
            if proof.verdict == "wrong":
                caught["proof"] += 1
            else:
                left.append((f"{kind}: {what}", proof.verdict, code))
        measured = mutations.verified(subject, [c for _, _, c in left]) if left else []
        for (what, verdict, _), measurement in zip(left, measured, strict=True):
            verified = measurement.status is Status.VERIFIED
            # A change that changes nothing (a loop made parallel that may be) is found right, and proved but for loops
            # of which all threads use what another one's thread has packed.
            assert verified or verdict != "proved", f"{program}: {what}: {verdict}, {measurement.status}"
            assert not verified or verdict in ("proved", "open"), f"{program}: {what}: {verdict}"
            caught["nothing changed" if verified else "verification"] += 1
    return caught


def test_thirty_are_asked_for() -> None:
    assert sum(CAUGHT.values()) >= 30


@pytest.mark.parametrize("program", CAUGHT)
def test_wrong_texts_are_caught(program: str) -> None:
    nets = texts(program)
    assert nets["proof"] + nets["verification"] >= CAUGHT[program], nets
    assert nets["proof"] > nets["verification"] + nets["nothing changed"], nets


@pytest.mark.parametrize("program", SCHEDULES)
def test_the_legality_check_and_the_proof_agree_on_wrong_schedules(program: str) -> None:
    illegal, legal = 0, []
    for subject in mutations.subjects(program, SCHEDULES[program]):
        for what, reason, text in mutations.schedules(subject):
            if text is None:
                illegal += 1
                assert reason
                continue
            proof, code = subject.mutant(text)
            assert proof.holds, f"{what}: {proof.verdict} {proof.reason}"
            legal.append(code)
        assert all(m.verified for m in mutations.verified(subject, legal)), program
    assert illegal
