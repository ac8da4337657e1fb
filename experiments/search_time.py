"""Seconds that `polydl optimize examples/conv2d.c` takes on each resnet layer whose channels are multiples of 64.

python experiments/search_time.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sizes import conv_layers

import polydl

EXAMPLE = Path(__file__).parents[1] / "examples" / "conv2d.c"
BLOCK = 64
IMAGES = 2


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        for layer in conv_layers(networks=("resnet",)):
            if layer.C % BLOCK or layer.K % BLOCK:
                continue
            values = {
                "NIMG": IMAGES, "NOFM": layer.K, "NIFM": layer.C, "OFH": layer.ofh, "OFW": layer.ofw,
                "KH": layer.kh, "KW": layer.kw, "STRIDE_H": layer.stride, "STRIDE_W": layer.stride,
            }  # fmt: skip
            macros = {name: str(value) for name, value in values.items()}
            small = polydl.rank(EXAMPLE, defines=macros, space="small", ranker="cost")
            done = polydl.optimize(EXAMPLE, Path(folder) / "out.c", defines=macros, top_k=5, budget=None)
            sys.stdout.write(
                f"{layer.name}: total {done.seconds['total']:.1f} s, analysis {done.seconds['analysis']:.2f} s of "
                f"{done.scops[0].ranking.space_size} variants, {small.seconds:.2f} s of {small.space_size} by cost, "
                f"{done.speedup:.1f}x\n"
            )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
