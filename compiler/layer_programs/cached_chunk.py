# SPDX-License-Identifier: Apache-2.0
"""The instructions of `CachedAttention` for a chunk of tokens, which attend causally.

All keys and values get into their places first. The window is the groups of places that the chunk
is in: there scores and shares are computed once more, masked, and stored over those that all places
got. Only DRAM has addresses that are chosen at a run, so scores and shares are resident tensors, of
which a part is stored anew. A row of scores is that of a token of a head; a strip of tokens is in
the buffers at a time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vdla.compiler import te
from vdla.compiler.layer_programs.attention_sizes import HIGH, LOW, AttentionSizes
from vdla.compiler.layer_programs.cached_token import Fields, TokenInstructions
from vdla.compiler.layer_programs.layer_program import LayerProgram
from vdla.hardware.isa import Buffer, Gemm, Instruction, Load, MicroOp, Operand, Store, Sync, Unit, Vector, VectorOp

_MASK_SHIFT = 23
"""Makes -128 a number that outweighs any sum, and any share before it has 8 bits."""
_ONE, _SCORE, _SHARE, _RESULT = range(4)  # scales


class ChunkInstructions(TokenInstructions):
    """A program of several tokens."""

    def __init__(self, of: AttentionSizes) -> None:
        super().__init__(of)
        self.count = of.key_squares
        self.in_group = min(of.tokens, self.config.block_out)
        self.rows = of.heads * of.strip
        self.window = of.strip * of.windows  # the entries of a strip's mask, in the accumulator from 0 on
        self.all = self.window + self.rows * of.windows  # behind the rows' windows, all places

    def program(self) -> LayerProgram:
        """The program."""
        plain = self._tensors()
        self._append()
        self._turn(0)
        for strip in range(self.of.tokens // self.of.strip):
            self._query(strip)
            self._scores_of(strip)
            self._shares_of(strip)
            self._results_of(strip)
        return self.builder.finished(plain)

    def _tensors(self) -> te.Tensor:
        of, lanes, builder = self.of, self.config.block_out, self.builder
        for name, heads in (("query", of.heads), ("key", of.kv_heads), ("value", of.kv_heads)):
            plain = te.placeholder((of.tokens, heads, of.size), self.config.inp_dtype, name)
            builder.input(_entries(plain, lanes))
        self._cache()
        line = self.config.out_entry_bytes
        builder.part("window_keys", "keys", of.windows * self.count * self.config.wgt_entry_bytes)
        rows, group, lane = np.ogrid[: max(of.tokens, lanes), : of.windows, :lanes]
        mask = np.where(group * lanes + lane <= rows, 0, LOW).astype(np.int8)
        builder.resident(f"mask{of.tokens}", mask)
        builder.part("window_mask", f"mask{of.tokens}", of.tokens * of.windows * line)
        for name in ("scores", "shares"):
            for strip in range(of.tokens // of.strip):
                whole = f"{name}{of.tokens}_{strip}"
                builder.resident(whole, np.zeros((self.rows, of.groups, lanes), np.int8))
                builder.part(f"window_{name}{strip}", whole, ((self.rows - 1) * of.groups + of.windows) * line)
        self._scales()
        result = builder.output("result", (of.heads, of.blocks, of.tokens, lanes))
        shape = (of.tokens, of.heads, of.size)
        return te.compute(shape, lambda t, h, e: result[h, e // lanes, t, e % lanes], "attended")

    def _micro_ops(self) -> list[MicroOp]:
        """As those of a token, of queries that lie entry by entry."""
        first, *others = super()._micro_ops()
        keys, shares = others[: self.of.entries], others[self.of.entries :]
        return [first, *(replace(op, src=op.src * self.of.strip) for op in keys), *shares]

    def _append(self) -> None:
        """Store keys, with zeros where there was none, and values."""
        of, builder, size = self.of, self.builder, self.in_group
        keys = of.tokens * self.count
        builder.add([Load(Buffer.SCL, x_size=4)], "scales", signals=["compute"])
        builder.load_micro_ops(self._micro_ops())
        plane: Fields = {"z_size": of.kv_heads, "z_stride": of.blocks * of.tokens * self.line, "y_size": of.blocks}
        plane |= {"y_stride": of.tokens * self.line, "x_size": size, "widen": 1}
        for window in range(of.windows):
            at: Fields = {"dram": window * size * self.line, **plane}
            builder.add([Load(Buffer.ACC, sram=window * size * self.count, **at, y_after=1)], "key_entries")
            builder.add([Load(Buffer.ACC, sram=keys + window * size * of.squares, **at)], "value_entries")
        loop: Fields = {"loop1": of.tokens * (self.count + of.squares), "acc1": 1}
        widened = Vector(VectorOp.MAX, Operand.IMM, imm=LOW, **loop, **self._emit(_ONE))
        builder.add([widened], waits=["load"], signals=["store"])
        builder.add([Store(**self._in_groups(self.count))], "key_row", waits=["compute"])
        values = Store(sram=keys, **self._in_groups(of.squares))
        builder.add([values], "value_row", signals=["compute"])
        self._handed_over()

    def _in_groups(self, count: int) -> Fields:
        """Where the entries of tokens lie in the cache."""
        z: Fields = {"z_size": self.of.windows, "z_stride": count * self.square} if self.of.windows > 1 else {}
        return {**z, "y_size": count, "y_stride": self.square, "x_size": self.in_group}

    def _query(self, strip: int) -> None:
        """Load the queries of a strip, entry by entry, and its mask."""
        of, builder, line = self.of, self.builder, self.line
        self._handed_over()
        plane: Fields = {"z_size": of.heads, "z_stride": of.blocks * of.tokens * line, "y_size": of.blocks}
        plane |= {"y_stride": of.tokens * line, "x_size": of.strip, "y_after": 1, "pad_value": HIGH}
        load = Load(Buffer.INP, dram=strip * of.strip * line, **plane)
        builder.add([load], "query_entries", waits=["compute"])
        builder.add([Load(Buffer.ACC, dram=strip * self.window * line, x_size=self.window, widen=1)], "window_mask")
        shifted = Vector(VectorOp.SHL, Operand.IMM, imm=_MASK_SHIFT, loop1=self.window, acc1=1)
        builder.add([shifted])

    def _masked(self, scale: int, zero_point: int = 0) -> Vector:
        """What is in the accumulator for the strip's window, where a row attends it."""
        of, size = self.of, self.window
        loops: Fields = {"loop0": of.heads, "acc0": size, "loop1": size, "acc1": 1, "src1": 1}
        emit = self._emit(scale, self.rows * of.groups, zero_point)
        return Vector(VectorOp.ADD, Operand.SRC, **loops, acc=size, **emit)

    def _scores_of(self, strip: int) -> None:
        of, builder, rows = self.of, self.builder, self.rows
        entries, half, count = of.blocks + 1, self.config.wgt_depth // 2, of.strip
        products, windowed = list[list[Instruction]](), list[Instruction]()
        for kv_head, heads in enumerate(self._heads()):
            products.append([])
            for head in heads:
                row: Fields = {"loop0": count, "src": head * entries * count, "src0": 1, "init": 1}
                row |= {"uop_begin": 1, "uop_end": 1 + of.entries, "acc1": 1}
                first, emit = head * count * of.groups, self._emit(_SCORE, head * count * of.groups)
                at: Fields = {"wgt": kv_head % 2 * half, "acc": self.all + first}
                products[-1].append(Gemm(**row, **at, loop1=of.groups, wgt1=entries, acc0=of.groups, **emit))
                at = {"wgt": kv_head * entries, "acc": self.window + head * self.window}
                windowed.append(Gemm(**row, **at, loop1=of.windows, wgt1=self.count, acc0=of.windows))
        self._products("keys", entries, products)
        builder.add([Store(x_size=rows * of.groups)], f"scores{of.tokens}_{strip}", waits=["compute"])
        builder.add([Sync(Unit.COMPUTE)], signals=["load"])
        keys = Load(Buffer.WGT, x_size=of.windows * self.count)
        builder.add([keys], "window_keys", waits=["compute"], signals=["compute"])
        builder.add([*windowed, self._masked(_SCORE)], waits=["load"], signals=["store"])
        builder.add([self._window_rows()], f"window_scores{strip}", waits=["compute"], signals=["compute"])
        self._handed_over()

    def _window_rows(self) -> Store:
        """The store of the rows' windows over all their places."""
        of, line = self.of, self.line
        first = self.rows * of.groups
        return Store(sram=first, y_size=self.rows, y_stride=of.groups * line, x_size=of.windows)

    def _shares_of(self, strip: int) -> None:
        of, builder, rows, first = self.of, self.builder, self.rows, self.rows * self.of.groups
        builder.add([Load(Buffer.INP, x_size=first)], f"scores{of.tokens}_{strip}", waits=["compute"])
        part: Fields = {"y_size": rows, "y_stride": of.groups * self.line, "x_size": of.windows}
        builder.add([Load(Buffer.INP, sram=first, **part)], f"window_scores{strip}", signals=["compute"])
        by_row: Fields = {"loop0": rows, "acc0": 1, "uop_end": 1}
        factor, count = {"factor": of.factor}, self.config.block_out
        loops: Fields = {"loop0": rows, "loop1": of.groups, "src0": of.groups, "src1": 1, "uop_end": 1}
        in_window: Fields = {**loops, "loop1": of.windows, "src": first, "src0": of.windows}
        emit = self._emit(_SHARE, zero_point=-HIGH)
        share = self.steps["softmax"]
        steps = [
            self.steps["softmax_clear"](**by_row),
            self.steps["softmax_most"](count=count, **loops, acc0=1),
            self.steps["softmax_total"](**factor, count=count, **loops, acc0=1),
            self.steps["softmax_log"](**by_row),
            share(**factor, **loops, acc=self.all, acc0=of.groups, acc1=1, wgt0=1, **emit),
            share(**factor, **in_window, acc=self.window, acc0=of.windows, acc1=1, wgt0=1),
            self._masked(_SHARE, -HIGH),
        ]
        builder.add(steps, waits=["load"], signals=["store"])
        builder.add([Store(x_size=first)], f"shares{of.tokens}_{strip}", waits=["compute"])
        builder.add([self._window_rows()], f"window_shares{strip}", signals=["compute"])
        self._handed_over()

    def _results_of(self, strip: int) -> None:
        of, builder, row = self.of, self.builder, self.of.groups + 1
        padded: Fields = {"y_size": self.rows, "y_stride": of.groups * self.line, "x_size": of.groups, "x_after": 1}
        shares = Load(Buffer.INP, **padded, pad_value=HIGH)
        builder.add([shares], f"shares{of.tokens}_{strip}", waits=["compute"])
        half, begin, count = self.config.wgt_depth // 2, 1 + of.entries, of.strip
        products = list[list[Instruction]]()
        for kv_head, heads in enumerate(self._heads()):
            products.append([])
            for head in heads:
                loops: Fields = {"loop0": count, "src0": row, "acc0": 1}
                loops |= {"loop1": of.blocks, "wgt1": 1, "acc1": count}
                first = head * of.blocks * count
                at: Fields = {"src": head * count * row, "wgt": kv_head % 2 * half, "acc": self.all + first}
                emit = self._emit(_RESULT, first)
                emit |= {"zero_point": of.zero_point, "clip_lo": of.low, "clip_hi": of.high}
                uops: Fields = {"uop_begin": begin, "uop_end": begin + 2 * of.groups}
                products[-1].append(Gemm(**loops, **at, **emit, **uops, init=1))
        self._products("values", of.blocks, products)
        entries: Fields = {"y_size": of.heads * of.blocks, "y_stride": of.tokens * self.line, "x_size": count}
        store = Store(dram=strip * count * self.line, **entries)
        is_last = strip + 1 == of.tokens // of.strip
        builder.add([store], "result", waits=["compute"], signals=[] if is_last else ["compute"])

    def _heads(self) -> list[range]:
        """The heads of queries of each head of keys."""
        return [range(first, first + self.shared) for first in range(0, self.of.heads, self.shared)]


def _entries(plain: te.Tensor, lanes: int) -> te.Tensor:
    """Rows of tokens as entries, block by block."""
    tokens, heads, size = plain.shape
    shape = (heads, size // lanes, tokens, lanes)
    return te.compute(shape, lambda h, b, t, o: plain[t, h, b * lanes + o], f"{plain.name}_entries")
