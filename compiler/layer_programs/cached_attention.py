# SPDX-License-Identifier: Apache-2.0
"""Attention of one token over a cache that stays in DRAM, as one program: the token's key and value
are put into their place, then all places are attended. docs/adr/0061 says why the cache lies so.

A cache lies as weights. Keys are weights of the scores, whose outputs are places, so that a key is
one row of entries. Values are weights of the results, whose inputs are places: a value is a column
of entries, which no STORE writes, so that values are kept in rows too, and the entries of the last
`lanes` places are made of them anew.

On a machine with a batch, a token is the first row of each entry, and a STORE writes all of them:
so keys are kept in rows as well.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from vdla.support.arrays import Array
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
        if config.block_in != lanes or widths != {8}:
            self._refuse("machine", "have as many inputs as outputs, of 8 bits", config.name)
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
        results = min(config.acc_depth, config.out_depth)
        depth = min(config.inp_depth, results)
        turned = self.turned * config.block_out
        return [
            ("size", self.kv_heads * (2 * self.blocks + 1), results),
            ("size", self.heads * (self.blocks + 1) + turned, config.inp_depth),
            ("size", (turned + config.block_out) // config.batch, results),
            ("places", self.heads * (self.groups + 1), depth),
            ("places", 2 * self.groups * (self.blocks + 1), config.wgt_depth),
            ("places", 2 + self.blocks + 2 * self.groups + config.batch, config.uop_depth),
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
    def key_squares(self) -> int:
        """The entries of weights that have the keys of a group of places."""
        return self.kv_heads * (self.blocks + 1)

    @property
    def turned(self) -> int:
        """The entries of weights that are made of rows anew."""
        return self.squares + (self.key_squares if self.config.batch > 1 else 0)

    @property
    def part_strides(self) -> dict[str, tuple[int, int]]:
        """The bytes from one group of places to the next, and from a place to the next in a group,
        by which each part of the cache moves.
        """
        config = self.config
        square, line = config.wgt_entry_bytes, config.out_entry_bytes
        rows, values = config.block_out * line, self.squares * square
        if config.batch == 1:
            keys = {"key_row": (self.key_squares * square, line)}
        else:
            far = self.key_squares * rows
            keys = {"key_row": (far, line), "key_rows": (far, 0), "key_squares": (self.key_squares * square, 0)}
        far = self.squares * rows
        return {**keys, "value_row": (far, line), "value_rows": (far, 0), "value_squares": (values, 0)}

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
        resident tensors `keys`, `rows` and `values`, and `keys_by_rows` on a machine with a batch.
        """
        return _Attention(self).program()


class _Attention:
    """The instructions; units wait for one another by the tokens that `add` is given."""

    def __init__(self, of: CachedAttention) -> None:
        self.of, self.config = of, of.config
        self.builder = ProgramBuilder(of.config, "cached_attention")
        self.square = of.config.wgt_entry_bytes // of.config.axi_bytes  # beats
        self.line = of.config.out_entry_bytes // of.config.axi_bytes
        self.batched = of.config.batch > 1
        formats = {name: isa_of(of.config).format_named(name) for name in _STEPS}
        self.steps: _Fields = {name: encoding.cls for name, encoding in formats.items() if encoding is not None}
        self.shared = of.heads // of.kv_heads

    def program(self) -> LayerProgram:
        plain = self._tensors()
        self._append()
        self._turn()
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
        factors = (1.0, of.score, SHARES / (1 << SHARE_BITS), of.result)
        scales = [np.broadcast_to(pack_scale(0, *scales_from_floats(factor)), lanes) for factor in factors]
        builder.constant("scales", np.stack(scales).view(np.int64))
        result = builder.output("result", (of.heads, of.blocks, *entry))
        return te.compute((of.heads, of.size), lambda h, e: result[(h, e // lanes, *row, e % lanes)], "attended")

    def _cache(self) -> None:
        """The tensors that stay, without a key, and their parts."""
        of, config, builder, lanes = self.of, self.config, self.builder, self.config.block_out
        keys = np.zeros((of.groups, of.kv_heads, of.blocks + 1, lanes, lanes), np.int8)
        keys[:, :, of.blocks] = _LOW
        values = np.zeros((of.groups, of.kv_heads, of.blocks, lanes, lanes), np.int8)
        square, line = config.wgt_entry_bytes, config.out_entry_bytes
        rows, whole = lanes * line, "keys"
        builder.resident("keys", keys)
        if self.batched:
            whole = "keys_by_rows"
            builder.resident(whole, self._by_rows(keys))
            builder.part("key_rows", whole, of.key_squares * rows)
            builder.part("key_squares", "keys", of.key_squares * square)
        builder.resident("rows", self._by_rows(values))
        builder.resident("values", values)
        builder.part("key_row", whole, (of.key_squares - 1) * rows + line)
        builder.part("value_row", "rows", (of.squares - 1) * rows + line)
        builder.part("value_rows", "rows", of.squares * rows)
        builder.part("value_squares", "values", of.squares * square)

    def _by_rows(self, squares: Array) -> Array:
        """Squares with an entry for each row."""
        return squares[..., None, :].repeat(self.config.batch, axis=-2) if self.batched else squares

    def _micro_ops(self) -> list[MicroOp]:
        """One of its own, those over a key, those over the places and what shares lack, and those
        of a batch of rows.
        """
        of, places = self.of, range(self.of.groups)
        keys = [MicroOp(src=k, wgt=k, first=k == 0, last=k == of.blocks) for k in range(of.blocks + 1)]
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
        rows: _Fields = {"y_stride": self.config.block_out * self.line, "x_size": 1}
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

    def _turn(self) -> None:
        """Make the entries of the last places' values, and of keys on a machine with a batch."""
        of, builder, lanes = self.of, self.builder, self.config.block_out
        keys, entries = of.turned - of.squares, lanes // self.config.batch
        rows = of.heads * (of.blocks + 1)
        loads = [("key_rows", rows, keys)] * self.batched + [("value_rows", rows + keys * lanes, of.squares)]
        made = [("key_squares", keys)] * self.batched + [("value_squares", of.squares)]
        waits = ["compute"]
        for name, sram, squares in loads:
            signals = ["compute"] * (name == "value_rows")
            builder.add([Load(Buffer.INP, sram=sram, x_size=squares * lanes)], name, waits=waits, signals=signals)
            waits = []
        builder.add([self.steps["transpose_clear"](uop_end=1), *self._turns(rows)], waits=["load"], signals=["store"])
        waits, sram = ["compute"], entries  # the first steps take columns of no square
        for name, squares in made:
            signals = ["compute"] * (name == "value_squares")
            builder.add([Store(sram=sram, x_size=squares * entries)], name, waits=waits, signals=signals)
            waits, sram = [], sram + squares * entries
        if self.batched:
            self._handed_over()

    def _turns(self, rows: int) -> Iterator[Instruction]:
        """The steps over all squares and over one more, whose results are those of the last one.

        Results are those of the square before: with a batch, rows of keys and columns of values.
        """
        of, batch, lanes = self.of, self.config.batch, self.config.block_out
        entries, square = lanes // batch, 0
        loops: _Fields = {"src0": lanes, "src1": batch, "acc0": entries, "acc1": 1, "loop1": entries, "uop_end": 1}
        runs: list[tuple[int, _Fields]] = [(of.squares, {})]
        if self.batched:
            begin = 2 + of.blocks + 2 * of.groups
            alone = {"alone": 1, "uop_begin": begin, "uop_end": begin + batch}
            runs = [(of.key_squares + 1, {**alone, "by_rows": 1}), (of.squares - 1, alone)]
        for squares, fields in runs:
            at: _Fields = {"src": rows + square * lanes, "acc": square * entries, "loop0": squares}
            if squares:
                yield self.steps["transpose"](**{**loops, **at, **self._emit(0, square * entries), **fields})
            square += squares
        yield self.steps["transpose"](src=rows, acc=square * entries, **loops, **self._emit(0, square * entries))

    def _products(self, weights: str, entries: int, products: list[Instruction]) -> None:
        """A product for each head of the cache, with its weights of all places."""
        of, half = self.of, self.config.wgt_depth // 2
        for head, product in enumerate(products):
            place: _Fields = {
                "dram": head * entries * self.square,
                "y_stride": of.kv_heads * entries * self.square,
            }
            load = Load(Buffer.WGT, sram=head % 2 * half, **place, y_size=of.groups, x_size=entries)
            begins = head == 0 and weights == "keys"  # behind the values, which are stored
            waits = ["compute"] * (head >= 2 or (begins and self.batched))
            self.builder.add([load], weights, waits=waits, signals=["compute"])
            later, ends = head + 2 < of.kv_heads, head + 1 == of.kv_heads
            first = ["store"] * (begins and not self.batched)
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


def _entries(plain: te.Tensor, entry: tuple[int, ...]) -> te.Tensor:
    """Rows of heads as entries, whose rows behind the first are 0."""
    heads, size = plain.shape
    lanes = entry[-1]

    def element(h: te.Value, b: te.Value, *place: te.Value) -> te.Value:
        value = plain[h, b * lanes + place[-1]]
        return te.select(place[0] < 1, value, te.const(0, plain.dtype)) if len(entry) > 1 else value

    return te.compute((heads, size // lanes, *entry), element, f"{plain.name}_entries")
