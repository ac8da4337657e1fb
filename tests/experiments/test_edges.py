"""The convolution kernels of the experiments against their definition, on every layer of data/edges.csv."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conv import DEPTHWISE, SOURCE, data, defines, from_c
from native import Floats
from sizes import DATA, ConvLayer, conv_layers

import polydl

pytestmark = pytest.mark.few_sizes

LAYERS = conv_layers(DATA / "edges.csv")


def _expected(layer: ConvLayer, image: Floats, filters: Floats) -> Floats:
    """The definition, a filter element at a time."""
    padded = np.pad(image, ((0, 0), (0, 0), (layer.pad_h, layer.pad_h), (layer.pad_w, layer.pad_w)))
    out = np.zeros((image.shape[0], layer.K, layer.ofh, layer.ofw), dtype=np.float32)
    for y in range(layer.kh):
        for x in range(layer.kw):
            top, left = y * layer.dilation, x * layer.dilation
            window = padded[:, :, top:, left:][:, :, :: layer.stride, :: layer.stride][:, :, : layer.ofh, : layer.ofw]
            if layer.depthwise:
                out += window * filters[:, 0, y, x][None, :, None, None]
            else:
                out += np.einsum("nchw,kc->nkhw", window, filters[:, :, y, x], optimize=True)
    return out


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_polydl_on_the_edges(layer: ConvLayer, tmp_path: Path) -> None:
    """What polydl writes without a search equals the definition, one image."""
    source = DEPTHWISE if layer.depthwise else SOURCE
    macros = {name: str(value) for name, value in defines(layer, 1).items()}
    output = tmp_path / "out.c"
    polydl.optimize(source, output, run=False, defines=macros, threads=2, space="small")
    rng = np.random.default_rng(1)
    inputs = data(layer, 1, rng, True)
    bound = from_c("polydl", layer, output, [f"-D{n}={v}" for n, v in macros.items()]).bind(inputs, rng)
    bound.run()
    np.testing.assert_array_equal(bound.result(), _expected(layer, *inputs))


def test_the_edges_are_there() -> None:
    assert {layer.dilation for layer in LAYERS} >= {1, 2}
    assert any(layer.depthwise for layer in LAYERS)
    assert {(layer.kh, layer.kw) for layer in LAYERS} >= {(1, 7), (7, 1), (1, 1)}
    assert any(layer.ofh == layer.ofw == 1 for layer in LAYERS)
    assert any(layer.stride == 2 for layer in LAYERS)


def test_groups_that_are_not_depthwise(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    header = (DATA / "edges.csv").read_text().splitlines()[0]
    path.write_text(f"{header}\nx,grouped,8,8,8,8,1,1,0,0,1,1,2\n")
    with pytest.raises(ValueError, match="grouped"):
        conv_layers(path)
