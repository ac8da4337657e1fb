"""Wrong variants of several programs, and which net catches them before they are timed: the table of reliability.md.

python experiments/mutants.py [--seed N] [--most M]

The legality check sees mistakes in schedules, `--prove` and the verification runs see mistakes in the printed C. Each
text goes through both of the latter, whatever the first of them says.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.prove import mutations

PROGRAMS = {
    "gemm_nt": ["_pack_"], "dot": ["polydl_sum"], "trisolv": ["polydl_sum"], "lu": ["parallel for"],
    "mlp": ["polydl_mk"], "atax": ["parallel for"],
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the places of the mistakes")
    parser.add_argument("--most", type=int, default=1, help="mistakes of each kind for a program")
    chosen = parser.parse_args()
    rows: list[tuple[str, str, str, str, str]] = []
    for program, words in PROGRAMS.items():
        for subject in mutations.subjects(program, words):
            rows += _texts(subject, chosen.seed, chosen.most)
            rows += _schedules(subject)
    sys.stdout.write("| program | mistake | what was changed | proof | verification runs |\n|---|---|---|---|---|\n")
    for row in rows:
        sys.stdout.write("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n")
    counts = Counter(_net(proof, runs) for _, _, _, proof, runs in rows)
    sys.stdout.write("\n" + "\n".join(f"{net}: {count}" for net, count in sorted(counts.items())) + "\n")
    return 1 if counts["CAUGHT BY NONE"] else 0


def _texts(subject: mutations.Subject, seed: int, most: int) -> list[tuple[str, str, str, str, str]]:
    made = list(mutations.mutants(subject, mutations.KINDS, seed, most))
    both = [subject.mutant(text) for _, _, text in made]
    measured = mutations.verified(subject, [code for _, code in both])
    return [
        (subject.program, kind, f"`{what[:100]}`", proof.verdict, measurement.status.value)
        for (kind, what, _), (proof, _), measurement in zip(made, both, measured, strict=True)
    ]


def _schedules(subject: mutations.Subject) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for what, illegal, text in mutations.schedules(subject):
        if text is None:
            rows.append((subject.program, "schedule", what, "illegal", "not run"))
            assert illegal is not None
            continue
        proof, code = subject.mutant(text)
        (measurement,) = mutations.verified(subject, [code])
        rows.append((subject.program, "schedule", what, proof.verdict, measurement.status.value))
    return rows


def _net(proof: str, runs: str) -> str:
    """What caught a mistake."""
    if proof == "illegal":
        return "caught by the legality check"
    if proof == "proved":
        return "changed nothing: proved, and found right" if runs == "verified" else "CAUGHT BY NONE"
    if proof == "wrong":
        return "caught by the proof" + ("" if runs == "verified" else ", and by the verification runs")
    return "CAUGHT BY NONE" if runs == "verified" else "not proved, caught by the verification runs"


if __name__ == "__main__":
    sys.exit(main())
