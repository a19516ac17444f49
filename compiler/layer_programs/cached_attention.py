# SPDX-License-Identifier: Apache-2.0
"""Attention of one token over a cache that stays in DRAM, as one program: the token's key and value
are put into their place, then all places are attended. docs/adr/0061 says why the cache lies so.

A cache lies as weights. Keys are weights of the scores, whose outputs are places, so that a key is
one row of entries. Values are weights of the results, whose inputs are places: a value is a column
of entries, which no STORE writes, so that values are kept in rows too, and the entries of the last
`lanes` places are made of them anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.extensions import LayerError
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.compiler.operators.definitions.row_softmax import FACTOR_BITS, SHARE_BITS
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    Buffer,
    Emit,
    Gemm,
    Instruction,
    Load,
    MicroOp,
    Operand,
    Store,
    Sync,
    Unit,
    Vector,
    VectorOp,
    isa_of,
)
from vdla.hardware.numerics import pack_scale, scales_from_floats
from vdla.support.integers import is_int

SHARES = 254
"""The steps of a share of 1; shares are from -127 on, and an input of 127 adds what they lack."""
_STEPS = ("transpose", "transpose_clear", "softmax", "softmax_clear", "softmax_most", "softmax_total", "softmax_log")
_LOW, _HIGH = -128, 127
_ROWS = 64  # of the plug-in's state
_Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedAttention:
    """Attention of `heads` queries of `size` elements over keys and values of `kv_heads` heads.

    Scores of `places` places are products of queries and keys times `score`, in 8 bits; where there
    is no key, the product is -16256 times the lanes. A share is what `definitions.row_softmax`
    says, with the exponent `factor` of a step of scores, in 254 steps; results are products of
    shares and values times `result`, plus `zero_point`, from `low` to `high`. Programs of several
    places may share a cache.

    Raises:
        LayerError: the machine has no extension softmax or transpose, or a size does not fit it.
    """

    config: Config
    heads: int
    kv_heads: int
    size: int
    places: int
    score: float
    factor: int
    result: float
    zero_point: int = 0
    low: int = _LOW
    high: int = _HIGH

    def __post_init__(self) -> None:
        config, lanes = self.config, self.config.block_out
        missing = [name for name in _STEPS if isa_of(config).format_named(name) is None]
        if missing:
            self._refuse("machine", "have the extensions softmax and transpose", f"{config.name} without {missing[0]}")
        widths = {config.inp_bits, config.wgt_bits, config.out_bits}
        if config.batch != 1 or config.block_in != lanes or widths != {8}:
            self._refuse("machine", "have square entries of 8 bits and a batch of 1", config.name)
        for name, unit in (("kv_heads", 1), ("heads", self.kv_heads), ("size", lanes), ("places", lanes)):
            value = getattr(self, name)
            if not is_int(value) or value < 1 or value % unit:
                self._refuse(name, f"be a multiple of {unit}" if unit > 1 else "be a positive integer", value)
        if self.heads > _ROWS:
            self._refuse("heads", f"be at most {_ROWS}", self.heads)
        if not is_int(self.factor) or not 0 < self.factor < 1 << FACTOR_BITS:
            self._refuse("factor", f"be from 1 to {(1 << FACTOR_BITS) - 1}", self.factor)
        for name in ("zero_point", "low", "high"):
            value = getattr(self, name)
            if not is_int(value) or not _LOW <= value <= _HIGH:
                self._refuse(name, f"be from {_LOW} to {_HIGH}", value)
        for name in ("score", "result"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < inf:
                self._refuse(name, "be a positive number", value)
        for name, entries, depth in self._needs():
            if entries > depth:
                self._refuse(name, f"fit {depth} entries of the {config.name}'s buffers", f"{entries} entries")

    def _refuse(self, what: str, rule: str, got: object) -> None:
        raise LayerError(f"cached_attention: {what} must {rule}, got {got}")

    def _needs(self) -> list[tuple[str, int, int]]:
        """Entries of buffers that have to hold them at a time, and the depths."""
        config = self.config
        depth = min(config.inp_depth, config.acc_depth, config.out_depth)
        rows = max(self.heads * (self.blocks + 1), self.kv_heads * (2 * self.blocks + 1))
        return [
            ("size", max(rows, self.squares * config.block_out + config.block_out), depth),
            ("places", self.heads * (self.groups + 1), depth),
            ("places", 2 * self.groups * (self.blocks + 1), config.wgt_depth),
            ("places", 2 + self.blocks + 2 * self.groups, config.uop_depth),
        ]

    @property
    def blocks(self) -> int:
        """The entries of a key."""
        return self.size // self.config.block_in

    @property
    def groups(self) -> int:
        """The places over the lanes."""
        return self.places // self.config.block_out

    @property
    def squares(self) -> int:
        """The entries of weights that have the values of a group of places."""
        return self.kv_heads * self.blocks

    @property
    def part_strides(self) -> dict[str, tuple[int, int]]:
        """The bytes from one group of places to the next, and from a place to the next in a group,
        by which each part of the cache moves.
        """
        square, line = self.config.wgt_entry_bytes, self.config.out_entry_bytes
        values = self.squares * square
        return {
            "key_row": ((self.squares + self.kv_heads) * square, line),
            "value_row": (values, line),
            "value_rows": (values, 0),
            "value_squares": (values, 0),
        }

    def offsets(self, place: int) -> dict[str, int]:
        """The `offsets` of a run for the token of a place; LayerError beyond the places."""
        if not is_int(place) or not 0 <= place < self.places:
            self._refuse("place", f"be from 0 to {self.places - 1}", place)
        group, row = divmod(place, self.config.block_out)
        return {part: group * far + row * near for part, (far, near) in self.part_strides.items()}

    @property
    def masked_score(self) -> float:
        """What the scores of places without a key are before they are rounded to 8 bits."""
        return _LOW * _HIGH * self.config.block_out * float(self.score)

    def program(self) -> LayerProgram:
        """The program, with the inputs `query`, `key` and `value`, each [heads, size], and the
        resident tensors `keys`, `rows` and `values`.
        """
        return _Attention(self).program()


class _Attention:
    """The instructions; units wait for one another by the tokens that `add` is given."""

    def __init__(self, of: CachedAttention) -> None:
        self.of, self.config = of, of.config
        self.builder = ProgramBuilder(of.config, "cached_attention")
        self.square = of.config.wgt_entry_bytes // of.config.axi_bytes  # beats
        self.line = of.config.out_entry_bytes // of.config.axi_bytes
        formats = {name: isa_of(of.config).format_named(name) for name in _STEPS}
        self.steps: _Fields = {name: encoding.cls for name, encoding in formats.items() if encoding is not None}
        self.shared = of.heads // of.kv_heads

    def program(self) -> LayerProgram:
        plain = self._tensors()
        self._append()
        self._turn_values()
        self._scores()
        self._shares()
        self._results()
        return self.builder.finished(plain)

    def _tensors(self) -> te.Tensor:
        of, lanes, builder = self.of, self.config.block_out, self.builder
        for name, heads in (("query", of.heads), ("key", of.kv_heads), ("value", of.kv_heads)):
            builder.input(_entries(te.placeholder((heads, of.size), self.config.inp_dtype, name), lanes))
        keys = np.zeros((of.groups, of.kv_heads, of.blocks + 1, lanes, lanes), np.int8)
        keys[:, :, of.blocks] = _LOW  # until a key is there
        builder.resident("keys", keys)
        values = (of.groups, of.kv_heads, of.blocks, lanes, lanes)
        builder.resident("rows", np.zeros(values, np.int8))
        builder.resident("values", np.zeros(values, np.int8))
        square, line = self.config.wgt_entry_bytes, self.config.out_entry_bytes
        builder.part("key_row", "keys", (of.squares + of.kv_heads - 1) * square + line)
        builder.part("value_row", "rows", (of.squares - 1) * square + line)
        builder.part("value_rows", "rows", of.squares * square)
        builder.part("value_squares", "values", of.squares * square)
        for name in ("scores", "shares"):
            builder.scratch(name, (of.heads, of.groups, lanes))
        factors = (1.0, of.score, SHARES / (1 << SHARE_BITS), of.result)
        scales = [np.broadcast_to(pack_scale(0, *scales_from_floats(factor)), lanes) for factor in factors]
        builder.constant("scales", np.stack(scales).view(np.int64))
        result = builder.output("result", (of.heads, of.blocks, lanes))
        return te.compute((of.heads, of.size), lambda h, e: result[h, e // lanes, e % lanes], "attended")

    def _micro_ops(self) -> list[MicroOp]:
        """One of its own, those over a key, those over the places and what shares lack."""
        of, places = self.of, range(self.of.groups)
        keys = [MicroOp(src=k, wgt=k, first=k == 0, last=k == of.blocks) for k in range(of.blocks + 1)]
        shares = [MicroOp(src=p, wgt=p * of.blocks, first=p == 0) for p in places]
        lack = [MicroOp(src=of.groups, wgt=p * of.blocks, last=p == of.groups - 1) for p in places]
        return [MicroOp(first=1, last=1), *keys, *shares, *lack]

    def _append(self) -> None:
        """Store the key, with zeros where there was none, and the value."""
        of, builder = self.of, self.builder
        count = of.squares + of.kv_heads
        builder.add([Load(Buffer.SCL, x_size=4)], "scales")
        padded: _Fields = {
            "y_size": of.heads,
            "y_stride": of.blocks * self.line,
            "x_size": of.blocks,
            "x_after": 1,
        }
        builder.add([Load(Buffer.INP, **padded, pad_value=_HIGH)], "query_entries", signals=["compute"])
        builder.load_micro_ops(self._micro_ops())
        key: _Fields = {
            "y_size": of.kv_heads,
            "y_stride": of.blocks * self.line,
            "x_size": of.blocks,
            "x_after": 1,
        }
        builder.add([Load(Buffer.ACC, **key, widen=1)], "key_entries")
        builder.add([Load(Buffer.ACC, sram=count, x_size=of.squares, widen=1)], "value_entries")
        loop: _Fields = {"loop1": count + of.squares, "acc1": 1}
        builder.add(
            [Vector(VectorOp.MAX, Operand.IMM, imm=_LOW, **loop, **self._emit(0))], waits=["load"], signals=["store"]
        )
        rows: _Fields = {"y_stride": self.square, "x_size": 1}
        builder.add([Store(y_size=count, **rows)], "key_row", waits=["compute"])
        builder.add([Store(sram=count, y_size=of.squares, **rows)], "value_row", signals=["compute"])
        self._handed_over()

    def _emit(self, scale: int, out: int = 0, zero_point: int = 0) -> _Fields:
        return {
            "emit": Emit.REQUANT, "scl": scale, "out": out, "zero_point": zero_point,
            "clip_lo": _LOW if not zero_point else -_HIGH, "clip_hi": _HIGH,
        }  # fmt: skip

    def _handed_over(self) -> None:
        """Let load go on behind what was stored."""
        self.builder.add([Sync(Unit.COMPUTE)], waits=["store"], signals=["load"])

    def _turn_values(self) -> None:
        """Make the entries of the last places' values."""
        of, builder, lanes = self.of, self.builder, self.config.block_out
        base, stored = of.heads * (of.blocks + 1), of.squares * lanes
        rows = Load(Buffer.INP, sram=base, x_size=stored)
        builder.add([rows], "value_rows", waits=["compute"], signals=["compute"])
        turn, places = self.steps["transpose"], {"src0": lanes, "src1": 1, "acc0": lanes, "acc1": 1, "loop1": lanes}
        steps = [
            self.steps["transpose_clear"](uop_end=1),
            turn(src=base, loop0=of.squares, **places, **self._emit(0), uop_end=1),
            turn(src=base, acc=stored, **places, **self._emit(0, stored), uop_end=1),
        ]
        builder.add(steps, waits=["load"], signals=["store"])
        made = Store(sram=lanes, x_size=stored)  # the first steps take columns of no square
        builder.add([made], "value_squares", waits=["compute"], signals=["compute"])

    def _products(self, weights: str, entries: int, products: list[Instruction]) -> None:
        """A product for each head of the cache, with its weights of all places."""
        of, half = self.of, self.config.wgt_depth // 2
        for head, product in enumerate(products):
            place: _Fields = {
                "dram": head * entries * self.square,
                "y_stride": of.kv_heads * entries * self.square,
            }
            load = Load(Buffer.WGT, sram=head % 2 * half, **place, y_size=of.groups, x_size=entries)
            self.builder.add([load], weights, waits=["compute"] * (head >= 2), signals=["compute"])
            later, ends = head + 2 < of.kv_heads, head + 1 == of.kv_heads
            first = ["store"] * (head == 0 and weights == "keys")  # the values are stored
            signals = ["load"] * later + ["store"] * ends
            self.builder.add([product], waits=["load", *first], signals=signals)

    def _scores(self) -> None:
        of = self.of
        entries, half = of.blocks + 1, self.config.wgt_depth // 2
        products: list[Instruction] = []
        for head in range(of.kv_heads):
            first = head * self.shared
            loops: _Fields = {"loop0": self.shared, "src0": entries, "acc0": of.groups}
            loops |= {"loop1": of.groups, "wgt1": entries, "acc1": 1}
            at: _Fields = {"src": first * entries, "wgt": head % 2 * half, "acc": first * of.groups}
            emit = self._emit(1, first * of.groups)
            products.append(Gemm(**loops, **at, **emit, init=1, uop_begin=1, uop_end=1 + entries))
        self._products("keys", entries, products)

    def _shares(self) -> None:
        of, builder, rows = self.of, self.builder, self.of.heads
        builder.add([Store(x_size=rows * of.groups)], "scores", waits=["compute"], signals=["compute"])
        self._handed_over()
        builder.add([Load(Buffer.INP, x_size=rows * of.groups)], "scores", waits=["compute"], signals=["compute"])
        by_row: _Fields = {"loop0": rows, "acc0": 1, "uop_end": 1}
        factor, count = {"factor": of.factor}, self.config.block_out
        loops: _Fields = {"loop0": rows, "loop1": of.groups, "src0": of.groups, "src1": 1, "uop_end": 1}
        emit = self._emit(2, zero_point=-_HIGH)
        steps = [
            self.steps["softmax_clear"](**by_row),
            self.steps["softmax_most"](count=count, **loops, acc0=1),
            self.steps["softmax_total"](**factor, count=count, **loops, acc0=1),
            self.steps["softmax_log"](**by_row),
            self.steps["softmax"](**factor, **loops, acc0=of.groups, acc1=1, wgt0=1, **emit),
        ]
        builder.add(steps, waits=["load"], signals=["store"])
        builder.add([Store(x_size=rows * of.groups)], "shares", waits=["compute"], signals=["compute"])
        self._handed_over()

    def _results(self) -> None:
        of, builder = self.of, self.builder
        row, half = of.groups + 1, self.config.wgt_depth // 2
        padded: _Fields = {
            "y_size": of.heads,
            "y_stride": of.groups * self.line,
            "x_size": of.groups,
            "x_after": 1,
        }
        builder.add([Load(Buffer.INP, **padded, pad_value=_HIGH)], "shares", waits=["compute"])
        begin = 2 + of.blocks
        products: list[Instruction] = []
        for head in range(of.kv_heads):
            first = head * self.shared
            loops: _Fields = {"loop0": self.shared, "src0": row, "acc0": of.blocks}
            loops |= {"loop1": of.blocks, "wgt1": 1, "acc1": 1}
            at: _Fields = {"src": first * row, "wgt": head % 2 * half, "acc": first * of.blocks}
            emit = self._emit(3, first * of.blocks)
            emit |= {"zero_point": of.zero_point, "clip_lo": of.low, "clip_hi": of.high}
            products.append(Gemm(**loops, **at, **emit, init=1, uop_begin=begin, uop_end=begin + 2 * of.groups))
        self._products("values", of.blocks, products)
        builder.add([Store(x_size=of.heads * of.blocks)], "result", waits=["compute"])


def _entries(plain: te.Tensor, lanes: int) -> te.Tensor:
    """Rows of heads as entries."""
    heads, size = plain.shape
    shape = (heads, size // lanes, lanes)
    return te.compute(shape, lambda h, b, o: plain[h, b * lanes + o], f"{plain.name}_entries")
