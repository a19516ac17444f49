# SPDX-License-Identifier: Apache-2.0
"""DMA intrinsics: strided, padded or widening copies of entries between DRAM and the chip."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from vdla.compiler import te
from vdla.compiler.codegen.vdla.fold_dma import DmaFields, fold_dma
from vdla.compiler.codegen.vdla.intrinsics import for_config
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.tensorize import CONDITION, GLOBAL, IMMEDIATE, Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config

_PADDED = (Buffer.INP, Buffer.ACC)


def _entry_shape(config: Config, buffer: Buffer) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of one entry of a buffer."""
    match buffer:
        case Buffer.INP:
            return (config.batch, config.block_in), config.inp_dtype
        case Buffer.WGT:
            return (config.block_out, config.block_in), config.wgt_dtype
        case Buffer.SCL:
            return (config.block_out,), "int64"
        case Buffer.ACC:
            return (config.batch, config.block_out), config.acc_dtype
        case Buffer.OUT:
            return (config.batch, config.block_out), config.out_dtype
        case Buffer.UOP:
            raise LoweringError("dma: buffer must be inp, wgt, scl, acc or out, got uop; the compiler loads micro-ops")


@for_config
def load(
    config: Config,
    buffer: Buffer,
    shape: tuple[int, ...] | None = None,
    widen: bool = False,
    dtype: str | None = None,
) -> Intrinsic:
    """buffer[...] = inside ? data[...] : pad, for one entry.

    `shape` is the entry in the tensor if it is not the buffer's own: batch x block_out elements in
    `inp`, block_in vectors of block_out weights in `wgt`, or several entries. With `widen`, int8
    elements are sign-extended into the accumulator. `dtype` is that of the elements if it is not
    the buffer's: narrower weights, whose bytes are copied as they are.
    """
    entry_shape, of_buffer = _entry_shape(config, buffer)
    shape, dtype = shape or entry_shape, dtype or of_buffer
    data = te.placeholder(shape, config.out_dtype if widen else dtype, "data")
    inside, pad = te.placeholder((1,), "bool", "inside"), te.placeholder((1,), dtype, "pad")

    def value(*i: te.Value) -> te.Value:
        element = te.cast(dtype, data[i])
        return te.select(inside[0], element, pad[0]) if buffer in _PADDED else element

    chip = te.compute(shape, value, "chip")
    name = f"load_{buffer.name.lower()}" + ("_widened" if widen else "")
    scopes = {"data": GLOBAL, "chip": buffer.name.lower()}
    if buffer in _PADDED:
        scopes |= {"inside": CONDITION, "pad": IMMEDIATE}

    def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
        def instruction(fields: dict[str, Any]) -> isa.Instruction:
            padding = sum(fields[f] for f in ("x_before", "x_after", "y_before", "y_after"))
            pad_value = int(nest.match.immediates.get("pad", 0)) if padding else 0
            return isa.Load(buffer, pad_value=pad_value, widen=int(widen), **fields)

        unit = _entries(config, buffer, prod(shape) * INTEGER_BITS[dtype])
        return fold_dma(nest, DmaFields("chip", "data", unit, _beats(config, data)), instruction)

    return Intrinsic(name=name, output=chip, scopes=scopes, lower=lower)


@for_config
def store(config: Config, raw: bool = False) -> Intrinsic:
    """data[...] = out[...] for one entry of results, or of 32-bit sums if `raw`."""
    shape, dtype = _entry_shape(config, Buffer.ACC if raw else Buffer.OUT)
    out = te.placeholder(shape, dtype, "out")
    data = te.compute(shape, lambda *i: out[i], "data")

    def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
        def instruction(fields: dict[str, Any]) -> isa.Instruction:
            pads = ("x_before", "x_after", "y_before", "y_after")
            return isa.Store(**{f: v for f, v in fields.items() if f not in pads})

        unit = _entries(config, Buffer.OUT, prod(shape) * INTEGER_BITS[dtype])
        return fold_dma(nest, DmaFields("out", "data", unit, _beats(config, data)), instruction)

    return Intrinsic(
        name="store_raw" if raw else "store", output=data, scopes={"out": "out", "data": GLOBAL}, lower=lower
    )


def _entries(config: Config, buffer: Buffer, bits: int) -> int:
    """Buffer entries per entry of the tensor."""
    entry = config.entry_bytes[buffer] * 8
    if bits % entry:
        raise LoweringError(
            f"dma: a tensor entry must be a multiple of {entry} bits, an entry of {buffer.name.lower()}, got {bits}; "
            "load it into the accumulator"
        )
    return bits // entry


def _beats(config: Config, data: te.Tensor) -> int:
    bits = prod(data.shape) * INTEGER_BITS[data.dtype]
    if bits % config.axi_bits:
        raise LoweringError(
            f"dma: a tensor entry must be a multiple of {config.axi_bits} bits, an AXI beat, got {bits}"
        )
    return bits // config.axi_bits
