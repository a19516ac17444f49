# SPDX-License-Identifier: Apache-2.0
"""Small packed tensor expressions, the intrinsic of each stage, and their values from NumPy.

Every problem has a stage `results` and its copy in DRAM, `output`; a seed determines a problem.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import reference
from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla.intrinsics import dma, gemm, requantise, vector
from vdla.compiler.te import Stage
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, Source, VectorOp

Array = np.ndarray[Any, Any]
MULT, SHIFT = 3, 5


@dataclass(frozen=True)
class Problem:
    """An unscheduled function: `stages` are on-chip, `copies` are (reader, tensor) to cache."""

    config: Config
    fn: ir.Function
    stages: dict[str, Intrinsic]
    copies: dict[tuple[str, str], Intrinsic]
    arrays: dict[str, Array]
    expected: Array


@dataclass
class Maker:
    """Collects tensors, arrays and stages; `done` appends the results."""

    rng: random.Random
    config: Config
    inputs: list[te.Tensor] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    stages: dict[str, Intrinsic] = field(default_factory=dict)
    copies: dict[tuple[str, str], Intrinsic] = field(default_factory=dict)

    def tensor(self, shape: tuple[int, ...], dtype: str, name: str) -> te.Tensor:
        """A parameter of random elements."""
        self.inputs.append(te.placeholder(shape, dtype, name))
        half = 1 << (int(dtype.removeprefix("int")) - 1)
        values = np.random.default_rng(self.rng.randrange(1 << 30)).integers(-half, half, shape)
        self.arrays[name] = values.astype("int32" if dtype == "int32" else "int8")
        return self.inputs[-1]

    def activations(self, size: tuple[int, ...], name: str, block: int) -> te.Tensor:
        """[batches, blocks, rows, columns, batch, block]."""
        return self.tensor((*size, self.config.batch, block), self.config.inp_dtype, name)

    def done(self, sums: te.Tensor, model: Array) -> Problem:
        """The problem of `sums` [batches, blocks, ..., batch, block_out] with values `model`."""
        raw, config, shape = self.rng.random() < 0.4, self.config, sums.shape
        if raw:
            results = te.compute(shape, lambda *i: sums[i], "results")
        else:
            results, model = self._requantised(sums, model)
        self.stages["results"] = requantise.raw(config) if raw else requantise.requantise(config)
        output = te.compute(shape, lambda *i: results[i], "output")
        fn = te.create_function(self.inputs, [output], "problem")
        self.stages["output"] = dma.store(config, raw)
        return Problem(config, fn, self.stages, self.copies, self.arrays, model)

    def _requantised(self, sums: te.Tensor, model: Array) -> tuple[te.Tensor, Array]:
        lanes, half = (sums.shape[1], sums.shape[-1]), 1 << (self.config.out_bits - 1)
        scale = te.placeholder(lanes, "int64", "scale")
        bias = np.random.default_rng(self.rng.randrange(1 << 30)).integers(0, 99, lanes)
        self.inputs.append(scale)
        self.arrays["scale"] = bias + (MULT << 32) + (SHIFT << 56)
        self.copies["results", "scale"] = dma.load(self.config, Buffer.SCL)

        def value(*i: te.Value) -> te.Value:
            return requantise.requantisation(sums[i], scale[i[1], i[-1]], 1, -half, half - 1, self.config.out_dtype)

        by_lane = bias.reshape(1, lanes[0], *(1,) * (len(sums.shape) - 3), lanes[1])
        scaled = reference.round_half_even((model + by_lane) * MULT, np.int64(SHIFT))
        return te.compute(sums.shape, value, "results"), np.clip(scaled + 1, -half, half - 1)


# --- numpy ----------------------------------------------------------------------------------------


def windows(data: Array, kernel: int, stride: int, padding: int, fill: int) -> Array:
    """[kh, kw, *shape of the data with windows for rows and columns]."""
    sides = ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0), (0, 0))
    full = np.pad(data.astype(np.int64), sides, constant_values=fill)
    rows, cols = ((size - kernel) // stride + 1 for size in full.shape[2:4])
    cut = [
        full[:, :, y : y + (rows - 1) * stride + 1 : stride, x : x + (cols - 1) * stride + 1 : stride]
        for y in range(kernel)
        for x in range(kernel)
    ]
    return np.stack(cut).reshape(kernel, kernel, *cut[0].shape)


# --- problems -------------------------------------------------------------------------------------


def matmul(m: Maker) -> Problem:
    """Sums over ci of a[ci, row] . b[co, ci]."""
    config, rng = m.config, m.rng
    rows, ins, outs = rng.randint(1, 7), rng.randint(1, 5), rng.randint(1, 4)
    if rng.random() < 0.3:  # more terms than tiny has micro-ops
        rows, ins, outs = rng.randint(1, 3), 36, rng.randint(1, 2)
    a = m.tensor((ins, rows, config.batch, config.block_in), config.inp_dtype, "data")
    w = m.tensor((outs, ins, config.block_out, config.block_in), config.wgt_dtype, "weight")
    c, i = te.reduce_axis(ins, "c"), te.reduce_axis(config.block_in, "i")

    def total(y: te.Value, n: te.Value, b: te.Value, o: te.Value) -> te.Value:
        return te.sum(te.cast("int32", a[c, y, b, i]) * te.cast("int32", w[n, c, o, i]), axis=[c, i])

    sums = te.compute((rows, outs, config.batch, config.block_out), total, "sums")
    m.stages["sums"] = gemm.gemm(config)
    m.copies["sums", "data"] = dma.load(config, Buffer.INP)
    m.copies["sums", "weight"] = dma.load(config, Buffer.WGT)
    x, y = (m.arrays[name].astype(np.int64) for name in ("data", "weight"))
    return m.done(sums, np.einsum("cybi,ncoi->ynbo", x, y))


def conv2d(m: Maker) -> Problem:
    """A convolution with padding, strides and a fill value."""
    config, rng = m.config, m.rng
    kernel, stride, padding, fill = rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 2), rng.randint(-3, 3)
    size = (rng.randint(1, 2), rng.randint(1, 3), rng.randint(3, 6), rng.randint(3, 6))
    data, outs = m.activations(size, "data", config.block_in), rng.randint(1, 3)
    shape = (outs, size[1], kernel, kernel, config.block_out, config.block_in)
    weight = m.tensor(shape, config.wgt_dtype, "weight")
    window = te.pad(data, (0, 0, padding, padding, 0, 0), (0, 0, padding, padding, 0, 0), fill, "window")
    extents = zip((size[1], kernel, kernel, config.block_in), ("c", "ky", "kx", "i"), strict=True)
    c, ky, kx, i = axes = [te.reduce_axis(extent, name) for extent, name in extents]

    def total(*at: te.Value) -> te.Value:
        n, co, y, x, b, o = at
        element = te.cast("int32", window[n, c, y * stride + ky, x * stride + kx, b, i])
        return te.sum(element * te.cast("int32", weight[co, c, ky, kx, o, i]), axis=axes)

    seen = windows(m.arrays["data"], kernel, stride, padding, fill)
    sums = te.compute((size[0], outs, *seen.shape[4:6], config.batch, config.block_out), _six(total), "sums")
    m.stages |= {"window": dma.load(config, Buffer.INP), "sums": gemm.gemm(config)}
    m.copies["sums", "weight"] = dma.load(config, Buffer.WGT)
    return m.done(sums, np.einsum("klncyxbi,dckloi->ndyxbo", seen, m.arrays["weight"].astype(np.int64)))


Six = Callable[[te.Value, te.Value, te.Value, te.Value, te.Value, te.Value], te.Value]


def _six(value: Callable[..., te.Value]) -> Six:
    """The function with names for its axes."""
    return lambda n, d, y, x, b, o: value(n, d, y, x, b, o)


def _window(m: Maker, fill: int, padding: int, name: str = "data") -> tuple[te.Tensor, Source]:
    """A padded window of activations in `inp`, or widened in `acc`."""
    config, rng = m.config, m.rng
    through_acc = config.block_out % config.block_in != 0 or rng.random() < 0.4
    size = (rng.randint(1, 2), rng.randint(1, 3), rng.randint(3, 6), rng.randint(3, 6))
    if "data" in m.arrays:
        size = m.arrays["data"].shape[:4]
    data = m.activations(size, name, config.block_out)
    rows, cols = size[2] + 2 * padding, size[3] + 2 * padding

    def value(*i: te.Value) -> te.Value:
        n, c, y, x, b, o = i
        held = te.all_of(y >= padding, y < size[2] + padding, x >= padding, x < size[3] + padding)
        element = data[n, c, y - padding, x - padding, b, o]
        if through_acc:
            return te.select(held, te.cast("int32", element), te.const(fill, "int32"))
        return te.select(held, element, te.const(fill, config.inp_dtype))

    stage = "window" if name == "data" else f"{name}_window"
    window = te.compute((*size[:2], rows, cols, config.batch, config.block_out), _six(value), stage)
    shape = None if through_acc else (config.batch, config.block_out)
    m.stages[stage] = dma.load(config, Buffer.ACC if through_acc else Buffer.INP, shape, widen=through_acc)
    return window, Source.ACC if through_acc else Source.INP


def depthwise(m: Maker) -> Problem:
    """A depthwise convolution; an entry of weights holds block_in vectors of block_out."""
    config, rng = m.config, m.rng
    kernel, stride, padding = rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 1)
    window, source = _window(m, rng.randint(-3, 3), padding)
    fill = _fill_of(window)
    channels, entry = window.shape[1], config.block_in
    weight = m.tensor((channels, -(-kernel * kernel // entry), entry, config.block_out), config.wgt_dtype, "weight")
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")

    def total(*at: te.Value) -> te.Value:
        n, c, y, x, b, o = at
        tap = ky * kernel + kx
        factor = te.cast("int32", weight[c, tap // entry, tap % entry, o])
        return te.sum(te.cast("int32", window[n, c, y * stride + ky, x * stride + kx, b, o]) * factor, axis=[ky, kx])

    seen = windows(m.arrays["data"], kernel, stride, padding, fill)
    sums = te.compute(seen.shape[2:], _six(total), "sums")
    m.stages["sums"] = vector.mac(config, Operand.WGT, source)
    m.copies["sums", "weight"] = dma.load(config, Buffer.WGT, (config.block_in, config.block_out))
    taps = m.arrays["weight"].astype(np.int64).reshape(channels, -1, config.block_out)[:, : kernel * kernel]
    return m.done(sums, np.einsum("klncyxbo,cklo->ncyxbo", seen, taps.reshape(channels, kernel, kernel, -1)))


def _fill_of(window: te.Tensor) -> int:
    """The padding value of a window."""
    assert isinstance(window.stage, Stage)
    select = window.stage.value.expr
    assert isinstance(select, ir.Select) and isinstance(select.b, ir.Const)
    return int(select.b.value)


def pooling(m: Maker) -> Problem:
    """The maximum of each window, optionally after an operation in place."""
    config, rng = m.config, m.rng
    kernel, stride, padding = rng.randint(1, 3), rng.randint(1, 2), rng.randint(0, 1)
    window, source = _window(m, -(1 << (config.inp_bits - 1)), padding)
    seen = windows(m.arrays["data"], kernel, stride, padding, _fill_of(window))
    if source is Source.ACC and rng.random() < 0.7:
        old = window
        window = te.compute(old.shape, _six(lambda *i: old[i] + 5), "raised")
        m.stages["raised"], seen = vector.in_place(config, VectorOp.ADD, Operand.IMM), seen + 5
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")

    def greatest(*at: te.Value) -> te.Value:
        n, c, y, x, b, o = at
        return te.max(te.cast("int32", window[n, c, y * stride + ky, x * stride + kx, b, o]), axis=[ky, kx])

    m.stages["sums"] = vector.reduction(config, VectorOp.MAX, source)
    return m.done(te.compute(seen.shape[2:], _six(greatest), "sums"), seen.max(axis=(0, 1)))


def _lower(old: te.Tensor, model: Array) -> tuple[te.Tensor, Array]:
    return te.compute(old.shape, _six(lambda *i: old[i] - 7), "lower"), model - 7


def _positive(old: te.Tensor, model: Array) -> tuple[te.Tensor, Array]:
    return te.compute(old.shape, _six(lambda *i: te.maximum(old[i], 5)), "positive"), np.maximum(model, 5)


IN_PLACE = {"lower": _lower, "positive": _positive}


def chain(m: Maker) -> Problem:
    """The sum of two products, then operations in place."""
    config, rng = m.config, m.rng
    first, source = _window(m, 0, 0)
    product = te.compute(first.shape, _six(lambda *i: te.cast("int32", first[i]) * 3), "product")
    m.stages["product"] = vector.product(config, Operand.IMM, source)
    model = m.arrays["data"].astype(np.int64) * 3
    last = product
    if rng.random() < 0.6:
        other, source = _window(m, 0, 0, "other")
        last = te.compute(first.shape, _six(lambda *i: product[i] + te.cast("int32", other[i]) * 2), "both")
        m.stages["both"] = vector.mac_in_place(config, Operand.IMM, source)
        model = model + m.arrays["other"].astype(np.int64) * 2
    for step in ("lower", "positive")[: rng.randint(0, 2)]:
        last, model = IN_PLACE[step](last, model)
        op = VectorOp.SUB if step == "lower" else VectorOp.MAX
        m.stages[step] = vector.in_place(config, op, Operand.IMM)
    return m.done(last, model)


PROBLEMS = (matmul, conv2d, depthwise, pooling, chain)
PRESETS = ("tiny", "int4", "batch4")


def problem(rng: random.Random) -> Problem:
    """A random problem on a random configuration."""
    return rng.choice(PROBLEMS)(Maker(rng, Config.preset(rng.choice(PRESETS))))
