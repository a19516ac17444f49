# SPDX-License-Identifier: Apache-2.0
"""The instructions of `CachedAttention` for one token; units wait for one another by the tokens
that `add` is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.layer_programs.attention_sizes import HIGH, LOW, STEPS, AttentionSizes
from vdla.compiler.layer_programs.layer_program import LayerProgram, ProgramBuilder
from vdla.compiler.operators.definitions.row_softmax import SHARE_BITS
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
from vdla.support.arrays import Array

SHARES = 254
"""The steps of a share of 1; shares are from -127 on, and an input of 127 adds what they lack."""
Fields = dict[str, Any]


class TokenInstructions:
    """A program of one token."""

    def __init__(self, of: AttentionSizes) -> None:
        self.of, self.config = of, of.config
        self.builder = ProgramBuilder(of.config, "cached_attention")
        self.square = of.config.wgt_entry_bytes // of.config.axi_bytes  # beats
        self.line = of.config.out_entry_bytes // of.config.axi_bytes
        formats = {name: isa_of(of.config).format_named(name) for name in STEPS}
        self.steps: Fields = {name: encoding.cls for name, encoding in formats.items() if encoding is not None}
        self.batched = of.config.batch > 1
        self.shared = of.heads // of.kv_heads

    def program(self) -> LayerProgram:
        """The program."""
        plain = self._tensors()
        self._append()
        self._turn(self.of.heads * (self.of.blocks + 1))  # behind the query
        self._scores()
        self._shares()
        self._results()
        return self.builder.finished(plain)

    def _tensors(self) -> te.Tensor:
        of, config, builder, lanes = self.of, self.config, self.builder, self.config.block_out
        entry, row = ((config.batch, lanes), (0,)) if self.batched else ((lanes,), ())
        for name, heads in (("query", of.heads), ("key", of.kv_heads), ("value", of.kv_heads)):
            builder.input(_entries(te.placeholder((heads, of.size), config.inp_dtype, name), entry))
        self._cache()
        for name in ("scores", "shares"):
            builder.scratch(name, (of.heads, of.groups, *entry))
        self._scales()
        result = builder.output("result", (of.heads, of.blocks, *entry))
        return te.compute((of.heads, of.size), lambda h, e: result[(h, e // lanes, *row, e % lanes)], "attended")

    def _cache(self) -> None:
        """The tensors of the cache, without a key, and the parts that new tokens go into."""
        of, config, builder, lanes = self.of, self.config, self.builder, self.config.block_out
        keys = np.zeros((of.groups, of.kv_heads, of.blocks + 1, lanes, lanes), np.int8)
        keys[:, :, of.blocks] = LOW
        values = np.zeros((of.groups, of.kv_heads, of.blocks, lanes, lanes), np.int8)
        square, line = config.wgt_entry_bytes, config.out_entry_bytes
        rows, tokens, whole = lanes * line, min(of.tokens, lanes) * line, "keys"
        builder.resident("keys", keys)
        if self.batched:
            whole = "keys_by_rows"
            builder.resident(whole, self._by_rows(keys))
            builder.part("key_rows", whole, of.key_squares * rows)
            builder.part("key_squares", "keys", of.key_squares * square)
        builder.resident("rows", self._by_rows(values))
        builder.resident("values", values)
        builder.part("key_row", whole, (of.windows * of.key_squares - 1) * rows + tokens)
        builder.part("value_row", "rows", (of.turned_values - 1) * rows + tokens)
        builder.part("value_rows", "rows", of.turned_values * rows)
        builder.part("value_squares", "values", of.turned_values * square)

    def _by_rows(self, squares: Array) -> Array:
        """Squares with an entry for each row."""
        return squares[..., None, :].repeat(self.config.batch, axis=-2) if self.batched else squares

    def _scales(self) -> None:
        """The factors of 1, of scores, of shares and of results."""
        of, lanes = self.of, self.config.block_out
        factors = (1.0, of.score, SHARES / (1 << SHARE_BITS), of.result)
        scales = [np.broadcast_to(pack_scale(0, *scales_from_floats(factor)), lanes) for factor in factors]
        self.builder.constant("scales", np.stack(scales).view(np.int64))

    def _micro_ops(self) -> list[MicroOp]:
        """One of its own, those over a key, those over the places and what shares lack, and those
        of a batch of rows.
        """
        of, places = self.of, range(self.of.groups)
        blocks = [*range(of.blocks), *[of.blocks] * of.masks]
        keys = [MicroOp(src=k, wgt=k, first=i == 0, last=i + 1 == len(blocks)) for i, k in enumerate(blocks)]
        shares = [MicroOp(src=p, wgt=p * of.blocks, first=p == 0) for p in places]
        lack = [MicroOp(src=of.groups, wgt=p * of.blocks, last=p == of.groups - 1) for p in places]
        batch = range(self.config.batch if self.batched else 0)
        rows = [MicroOp(src=row, last=row + 1 == len(batch)) for row in batch]
        return [MicroOp(first=1, last=1), *keys, *shares, *lack, *rows]

    def _append(self) -> None:
        """Store the key, with zeros where there was none, and the value."""
        of, builder = self.of, self.builder
        count = of.key_squares
        builder.add([Load(Buffer.SCL, x_size=4)], "scales")
        padded: Fields = {
            "y_size": of.heads,
            "y_stride": of.blocks * self.line,
            "x_size": of.blocks,
            "x_after": 1,
        }
        builder.add([Load(Buffer.INP, **padded, pad_value=HIGH)], "query_entries", signals=["compute"])
        builder.load_micro_ops(self._micro_ops())
        key: Fields = {
            "y_size": of.kv_heads,
            "y_stride": of.blocks * self.line,
            "x_size": of.blocks,
            "x_after": 1,
        }
        builder.add([Load(Buffer.ACC, **key, widen=1)], "key_entries")
        builder.add([Load(Buffer.ACC, sram=count, x_size=of.squares, widen=1)], "value_entries")
        loop: Fields = {"loop1": count + of.squares, "acc1": 1}
        builder.add(
            [Vector(VectorOp.MAX, Operand.IMM, imm=LOW, **loop, **self._emit(0))], waits=["load"], signals=["store"]
        )
        rows: Fields = {"y_stride": self.config.block_out * self.line, "x_size": 1}
        builder.add([Store(y_size=count, **rows)], "key_row", waits=["compute"])
        builder.add([Store(sram=count, y_size=of.squares, **rows)], "value_row", signals=["compute"])
        self._handed_over()

    def _emit(self, scale: int, out: int = 0, zero_point: int = 0) -> Fields:
        return {
            "emit": Emit.REQUANT, "scl": scale, "out": out, "zero_point": zero_point,
            "clip_lo": LOW if not zero_point else -HIGH, "clip_hi": HIGH,
        }  # fmt: skip

    def _handed_over(self) -> None:
        """Let load go on behind what was stored."""
        self.builder.add([Sync(Unit.COMPUTE)], waits=["store"], signals=["load"])

    def _turn(self, base: int) -> None:
        """Make the entries of the last places' values, and of keys on a machine with a batch, of
        rows that are loaded to `base`.
        """
        of, builder, lanes = self.of, self.builder, self.config.block_out
        keys, values, entries = of.turned - of.turned_values, of.turned_values, lanes // self.config.batch
        loads = [("key_rows", base, keys)] * self.batched + [("value_rows", base + keys * lanes, values)]
        made = [("key_squares", keys)] * self.batched + [("value_squares", values)]
        waits = ["compute"]
        for name, sram, squares in loads:
            signals = ["compute"] * (name == "value_rows")
            builder.add([Load(Buffer.INP, sram=sram, x_size=squares * lanes)], name, waits=waits, signals=signals)
            waits = []
        builder.add([self.steps["transpose_clear"](uop_end=1), *self._turns(base)], waits=["load"], signals=["store"])
        waits, sram = ["compute"], entries  # the first steps take columns of no square
        for name, squares in made:
            signals = ["compute"] * (name == "value_squares")
            builder.add([Store(sram=sram, x_size=squares * entries)], name, waits=waits, signals=signals)
            waits, sram = [], sram + squares * entries
        if self.batched:
            self._handed_over()

    def _turns(self, base: int) -> Iterator[Instruction]:
        """The steps over all squares and over one more, whose results are those of the last one.

        Results are those of the square before: with a batch, rows of keys and columns of values.
        """
        of, batch, lanes = self.of, self.config.batch, self.config.block_out
        entries, square = lanes // batch, 0
        loops: Fields = {"src0": lanes, "src1": batch, "acc0": entries, "acc1": 1, "loop1": entries, "uop_end": 1}
        runs: list[tuple[int, Fields]] = [(of.turned_values, {})]
        if self.batched:
            begin = 1 + of.entries + 2 * of.groups
            alone = {"alone": 1, "uop_begin": begin, "uop_end": begin + batch}
            runs = [(of.key_squares + 1, {**alone, "by_rows": 1}), (of.turned_values - 1, alone)]
        for squares, fields in runs:
            at: Fields = {"src": base + square * lanes, "acc": square * entries, "loop0": squares}
            if squares:
                yield self.steps["transpose"](**{**loops, **at, **self._emit(0, square * entries), **fields})
            square += squares
        yield self.steps["transpose"](src=base, acc=square * entries, **loops, **self._emit(0, square * entries))

    def _products(
        self, weights: str, entries: int, products: Sequence[Sequence[Instruction]], *, behind_stores: bool = False
    ) -> None:
        """Products for each head of the cache, with its weights of all places; the first ones may
        be behind stores of the cache, which with a batch wrote these weights.
        """
        of, half = self.of, self.config.wgt_depth // 2
        for head, of_head in enumerate(products):
            place: Fields = {
                "dram": head * entries * self.square,
                "y_stride": of.kv_heads * entries * self.square,
            }
            load = Load(Buffer.WGT, sram=head % 2 * half, **place, y_size=of.groups, x_size=entries)
            begins = behind_stores and head == 0
            waits = ["compute"] * (head >= 2 or (begins and self.batched))
            self.builder.add([load], weights, waits=waits, signals=["compute"])
            later, ends = head + 2 < of.kv_heads, head + 1 == of.kv_heads
            first, signals = ["store"] * (begins and not self.batched), ["load"] * later + ["store"] * ends
            self.builder.add(of_head, waits=["load", *first], signals=signals)

    def _scores(self) -> None:
        of = self.of
        entries, half = of.blocks + 1, self.config.wgt_depth // 2
        products = list[list[Instruction]]()
        for head in range(of.kv_heads):
            first = head * self.shared
            loops: Fields = {"loop0": self.shared, "src0": entries, "acc0": of.groups}
            loops |= {"loop1": of.groups, "wgt1": entries, "acc1": 1}
            at: Fields = {"src": first * entries, "wgt": head % 2 * half, "acc": first * of.groups}
            emit = self._emit(1, first * of.groups)
            products.append([Gemm(**loops, **at, **emit, init=1, uop_begin=1, uop_end=1 + of.entries)])
        self._products("keys", entries, products, behind_stores=True)

    def _shares(self) -> None:
        of, builder, rows = self.of, self.builder, self.of.heads
        builder.add([Store(x_size=rows * of.groups)], "scores", waits=["compute"], signals=["compute"])
        self._handed_over()
        builder.add([Load(Buffer.INP, x_size=rows * of.groups)], "scores", waits=["compute"], signals=["compute"])
        by_row: Fields = {"loop0": rows, "acc0": 1, "uop_end": 1}
        factor, count = {"factor": of.factor}, self.config.block_out
        loops: Fields = {"loop0": rows, "loop1": of.groups, "src0": of.groups, "src1": 1, "uop_end": 1}
        emit = self._emit(2, zero_point=-HIGH)
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
        padded: Fields = {
            "y_size": of.heads,
            "y_stride": of.groups * self.line,
            "x_size": of.groups,
            "x_after": 1,
        }
        builder.add([Load(Buffer.INP, **padded, pad_value=HIGH)], "shares", waits=["compute"])
        begin = 1 + of.entries
        products = list[list[Instruction]]()
        for head in range(of.kv_heads):
            first = head * self.shared
            loops: Fields = {"loop0": self.shared, "src0": row, "acc0": of.blocks}
            loops |= {"loop1": of.blocks, "wgt1": 1, "acc1": 1}
            at: Fields = {"src": first * row, "wgt": head % 2 * half, "acc": first * of.blocks}
            emit = self._emit(3, first * of.blocks)
            emit |= {"zero_point": of.zero_point, "clip_lo": of.low, "clip_hi": of.high}
            products.append([Gemm(**loops, **at, **emit, init=1, uop_begin=begin, uop_end=begin + 2 * of.groups)])
        self._products("values", of.blocks, products)
        builder.add([Store(x_size=of.heads * of.blocks)], "result", waits=["compute"])


def _entries(plain: te.Tensor, entry: tuple[int, ...]) -> te.Tensor:
    """Rows of heads as entries, whose rows behind the first are 0."""
    heads, size = plain.shape
    lanes = entry[-1]

    def element(h: te.Value, b: te.Value, *place: te.Value) -> te.Value:
        value = plain[h, b * lanes + place[-1]]
        return te.select(place[0] < 1, value, te.const(0, plain.dtype)) if len(entry) > 1 else value

    return te.compute((heads, size // lanes, *entry), element, f"{plain.name}_entries")
