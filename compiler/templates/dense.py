"""Dense layers and matrix products, as a 1x1 convolution whose pixels are the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.operators.vdla.checks import blocks, check_array, pad_to
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, template
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.conv2d import conv2d
from vdla.compiler.templates.sliding_window import check_extents
from vdla.hardware.config import Config


@template
def dense(
    config: Config,
    *,
    rows: int,
    in_features: int,
    out_features: int,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "dense",
) -> Operator:
    """[rows, in_features] times the transpose of [out_features, in_features].

    Rows fill the machine's batch first. Options are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    check_extents(name, [("rows", rows), ("in_features", in_features), ("out_features", out_features)])
    groups = blocks(rows, config.batch)
    conv = conv2d(
        config, batch=config.batch, height=1, width=groups, in_channels=in_features, out_channels=out_features,
        kernel=1, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point,
        input_zero_point=input_zero_point, raw=raw, virtual_threads=virtual_threads, packing="channels",
        tiling=tiling, name=name,
    )  # fmt: skip

    def pack(data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        return pack_inputs(data) | pack_constants(weight, bias, multiplier)

    def pack_inputs(data: Array) -> dict[str, Array]:
        data = check_array("data", data, (rows, in_features), config.inp_dtype)
        image = pad_to(data, (groups * config.batch, in_features)).reshape(groups, config.batch, in_features)
        return conv.pack_inputs(image.transpose(1, 2, 0)[:, :, None, :])

    def pack_constants(weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        weight = check_array("weight", weight, (out_features, in_features), config.wgt_dtype)
        return conv.pack_constants(weight[:, :, None, None], bias, multiplier)

    def unpack(outputs: Mapping[str, Array]) -> Array:
        image = conv.unpack(outputs)  # [batch, out_features, 1, groups]
        return np.ascontiguousarray(image[:, :, 0].transpose(2, 0, 1).reshape(-1, out_features)[:rows])

    return replace(
        conv,
        macs=rows * in_features * out_features,
        pack=pack,
        pack_inputs=pack_inputs,
        pack_constants=pack_constants,
        unpack=unpack,
    )
