"""Between the plain layout that all peers share and the blocked one of conv.c."""

from __future__ import annotations

import numpy as np
from native import Floats
from sizes import ConvLayer


def blocked_inputs(
    layer: ConvLayer, image: Floats, filters: Floats, *, inside: bool = False
) -> tuple[Floats, Floats, Floats]:
    """(input, filter, zeroed output) of conv.c, or (`inside`) of conv_inside.c.

    image [N][C][H][W] unpadded -> [N][C/b][H'][W'][b] padded, cut to what the filter reaches, or as it is;
    filters [K][C][kh][kw] -> [K/B][C/b][kh][kw][b][B], or [K][1][kh][kw] -> [K/B][kh][kw][B] for a depthwise layer.
    """
    count = image.shape[0]
    ifm, ofm = layer.ifm_block, layer.ofm_block
    height, width = (layer.ifh, layer.ifw) if inside else layer.padded
    around = (0, 0) if inside else (layer.pad_h, layer.pad_w)
    padded = np.pad(image, ((0, 0), (0, 0), *((n, n) for n in around)))
    padded = padded[:, :, :height, :width].reshape(count, layer.C // ifm, ifm, height, width)
    if layer.depthwise:
        channels = filters.reshape(layer.K // ofm, ofm, layer.kh, layer.kw)
        output = np.zeros((count, layer.K // ofm, layer.ofh, layer.ofw, ofm), dtype=np.float32)
        each = np.ascontiguousarray(channels.transpose(0, 2, 3, 1))
        return np.ascontiguousarray(padded.transpose(0, 1, 3, 4, 2)), each, output
    split = filters.reshape(layer.K // ofm, ofm, layer.C // ifm, ifm, layer.kh, layer.kw)
    output = np.zeros((count, layer.K // ofm, layer.ofh, layer.ofw, ofm), dtype=np.float32)
    return (
        np.ascontiguousarray(padded.transpose(0, 1, 3, 4, 2)),
        np.ascontiguousarray(split.transpose(0, 2, 4, 5, 3, 1)),
        output,
    )


def blocked_output(output: Floats) -> Floats:
    """[N][K/B][H][W][B] -> [N][K][H][W]."""
    count, tiles, height, width, block = output.shape
    return np.ascontiguousarray(output.transpose(0, 1, 4, 2, 3)).reshape(count, tiles * block, height, width)
