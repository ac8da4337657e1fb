"""The picture of the README: every layer of convolutions.md as a bar, as SVG.

python experiments/draw_convolutions.py > docs/assets/convolutions.svg
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TABLE = Path(__file__).parent / "convolutions.md"
WIDTH, HEIGHT = 900, 300
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 40, 34
LINES = (0.75, 1.0, 1.5, 2.0, 4.0, 8.0)
"""Ratios at which a line is drawn."""
GAP = 10
"""Between networks."""
NETWORKS = {
    "resnet": "ResNet-50", "alexnet": "AlexNet", "googlenetv1": "GoogLeNet", "fastrcnn": "Faster R-CNN",
    "maskrcnn": "Mask R-CNN",
}  # fmt: skip
FASTER, SLOWER = "#2f7d5b", "#b5523b"
STYLE = "text{font:12px sans-serif;fill:#777}.t{font-size:14px}.n{text-anchor:middle}.s{text-anchor:end}"


def ratios(text: str) -> dict[str, list[float]]:
    """By network, in the order of the table: polydl over the fastest of oneDNN's layouts. Raises ValueError when there
    is no such table."""
    found: dict[str, list[float]] = {}
    for network, ratio in re.findall(r"^\| (\w+)_\d+ \| [^|]*\| [^|]*\| ([0-9.]+) \|", text, re.MULTILINE):
        found.setdefault(network, []).append(float(ratio))
    if not found:
        raise ValueError("no layers in the table")
    return found


def drawing(found: Mapping[str, Sequence[float]]) -> str:
    """The SVG. Bars start at 1 on a logarithmic scale, each network's in descending order."""
    everything = [ratio for layers in found.values() for ratio in layers]
    low, high = math.log(min(*everything, LINES[0])), math.log(max(*everything, LINES[1]))
    width = (WIDTH - LEFT - RIGHT - GAP * (len(found) - 1)) / len(everything)

    def y(ratio: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log(ratio)) / (high - low), 1)

    mean = math.exp(statistics.fmean(map(math.log, everything)))
    title = f"Speed over the fastest oneDNN layout, {len(everything)} convolution layers"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="t" x="{LEFT}" y="16">{title} (geometric mean {mean:.2f})</text>',
    ]
    for line in LINES:
        if low <= math.log(line) <= high:
            weight = 1.5 if line == 1 else 0.5
            out.append(f'<path d="M{LEFT} {y(line)}H{WIDTH - RIGHT}" stroke="#999" stroke-width="{weight}"/>')
            out.append(f'<text class="s" x="{LEFT - 6}" y="{y(line) + 4}">{line:g}</text>')
    x = float(LEFT)
    for network, layers in found.items():
        for side, colour in ((True, FASTER), (False, SLOWER)):
            bars = [(x + i * width, r) for i, r in enumerate(sorted(layers, reverse=True)) if (r >= 1) is side]
            path = "".join(f"M{at:.1f} {y(1)}V{y(r)}h{width - 0.8:.1f}V{y(1)}z" for at, r in bars)
            out.append(f'<path d="{path}" fill="{colour}"/>' if path else "")
        middle = x + len(layers) * width / 2
        out.append(f'<text class="n" x="{middle:.1f}" y="{HEIGHT - 10}">{NETWORKS.get(network, network)}</text>')
        x += len(layers) * width + GAP
    return "\n".join([*(line for line in out if line), "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(drawing(ratios(TABLE.read_text(encoding="utf-8"))))
