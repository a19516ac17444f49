# SPDX-License-Identifier: Apache-2.0
"""The sizes of attention over a cache that stays in DRAM, what fits a machine, and where the parts
of the cache are at a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real

from vdla.compiler.extensions import LayerError
from vdla.compiler.operators.definitions.row_softmax import FACTOR_BITS
from vdla.hardware.config import Config
from vdla.hardware.isa import isa_of
from vdla.support.integers import is_int

LOW, HIGH = -128, 127
STEPS = ("transpose", "transpose_clear", "softmax", "softmax_clear", "softmax_most", "softmax_total", "softmax_log")
"""The instructions that a machine must have."""
LEAST_SCORE = -127.5
"""What scores are -128 for, from it down, before they are rounded."""
_ROWS = 64  # of the plug-in's state


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSizes:
    """The fields of `CachedAttention`, checked.

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
    low: int = LOW
    high: int = HIGH
    tokens: int = 1
    masks: int = 1

    def __post_init__(self) -> None:
        config, lanes = self.config, self.config.block_out
        missing = [name for name in STEPS if isa_of(config).format_named(name) is None]
        if missing:
            self._refuse("machine", "have the extensions softmax and transpose", f"{config.name} without {missing[0]}")
        widths = {config.inp_bits, config.wgt_bits, config.out_bits}
        if config.block_in != lanes or widths != {8}:
            self._refuse("machine", "have as many inputs as outputs, of 8 bits", config.name)
        if not is_int(self.masks) or not 1 <= self.masks < config.uop_depth:
            self._refuse("masks", f"be from 1 to {config.uop_depth - 1}", self.masks)
        for name, unit in (("kv_heads", 1), ("heads", self.kv_heads), ("size", lanes), ("places", lanes)):
            value = getattr(self, name)
            if not is_int(value) or value < 1 or value % unit:
                self._refuse(name, f"be a multiple of {unit}" if unit > 1 else "be a positive integer", value)
        tokens = self.tokens
        if not is_int(tokens) or not 1 <= tokens <= self.places or (lanes % tokens and tokens % lanes):
            self._refuse("tokens", f"divide {lanes} or be a multiple of it, up to the {self.places} places", tokens)
        if tokens > 1 and config.batch > 1:
            self._refuse("tokens", f"be 1 on a machine with a batch, {config.name}", tokens)
        if self.heads > _ROWS:
            self._refuse("heads", f"be at most {_ROWS}", self.heads)
        if not is_int(self.factor) or not 0 < self.factor < 1 << FACTOR_BITS:
            self._refuse("factor", f"be from 1 to {(1 << FACTOR_BITS) - 1}", self.factor)
        for name in ("zero_point", "low", "high"):
            value = getattr(self, name)
            if not is_int(value) or not LOW <= value <= HIGH:
                self._refuse(name, f"be from {LOW} to {HIGH}", value)
        for name in ("score", "result"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < inf:
                self._refuse(name, "be a positive number", value)
        if tokens > 1 and self.masked_score > LEAST_SCORE:
            rule = f"make scores {LEAST_SCORE} or less at places without a key, for several tokens"
            self._refuse("masks", rule, f"{self.masked_score:.1f}")
        for name, entries, depth in self._needs():
            if entries > depth:
                self._refuse(name, f"fit {depth} entries of the {config.name}'s buffers", f"{entries} entries")

    def _refuse(self, what: str, rule: str, got: object) -> None:
        raise LayerError(f"cached_attention: {what} must {rule}, got {got}")

    def _needs(self) -> list[tuple[str, int, int]]:
        """Entries of buffers that have to hold them at a time, and the depths."""
        config, lanes = self.config, self.config.block_out
        turned = self.turned * lanes
        if self.tokens == 1:
            most = [
                ("size", self.kv_heads * (2 * self.blocks + 1), self._results),
                ("size", self.heads * (self.blocks + 1) + turned, config.inp_depth),
                ("size", (turned + lanes) // config.batch, self._results),
            ]
        else:
            most = [("size", max(self.tokens * (self.key_squares + self.squares), turned + lanes), self._depth)]
        rows = config.batch if config.batch > 1 else 0
        return [
            *most,
            ("places", self._entries_of_rows(1), self._depth),
            ("places", 2 * self.groups * (self.blocks + 1), config.wgt_depth),
            ("places", 1 + self.entries + 2 * self.groups + rows, config.uop_depth),
        ]

    @property
    def _results(self) -> int:
        return min(self.config.acc_depth, self.config.out_depth)

    @property
    def _depth(self) -> int:
        return min(self.config.inp_depth, self._results)

    def _entries_of_rows(self, tokens: int) -> int:
        """The entries of a buffer for the scores of so many of the tokens."""
        rows = self.heads * tokens
        if self.tokens == 1:
            return rows * (self.groups + 1)
        return (rows + tokens) * self.windows + rows * max(self.groups + 1, self.blocks + 1)

    @property
    def strip(self) -> int:
        """The tokens of a chunk whose scores are in the buffers at a time."""
        sizes = range(min(self.tokens, _ROWS // self.heads), 1, -1)
        fits = (size for size in sizes if self.tokens % size == 0 and self._entries_of_rows(size) <= self._depth)
        return next(fits, 1)

    @property
    def alignment(self) -> int:
        """What the place of the first token is a multiple of."""
        return min(self.tokens, self.config.block_out)

    @property
    def windows(self) -> int:
        """The groups of places that new tokens are in."""
        return -(-self.tokens // self.config.block_out)

    @property
    def blocks(self) -> int:
        """The entries of a key."""
        return self.size // self.config.block_in

    @property
    def entries(self) -> int:
        """The entries that a score is a sum over: those of a key, and of its mask so many times."""
        return self.blocks + self.masks

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
    def turned_values(self) -> int:
        """The entries of weights that are made of rows of values anew."""
        return self.windows * self.squares

    @property
    def turned(self) -> int:
        """The entries of weights that are made of rows anew."""
        return self.turned_values + (self.key_squares if self.config.batch > 1 else 0)

    @property
    def part_strides(self) -> dict[str, tuple[int, int]]:
        """The bytes from one group of places to the next, and from a place to the next in a group,
        by which each part of the cache moves.
        """
        config = self.config
        square, line = config.wgt_entry_bytes, config.out_entry_bytes
        rows, keys = config.block_out * line, self.key_squares * square
        token = {"key_row": (keys, line)}
        if config.batch > 1:
            far = self.key_squares * rows
            token = {"key_row": (far, line), "key_rows": (far, 0), "key_squares": (keys, 0)}
        far = self.squares * rows
        token |= {"value_row": (far, line), "value_rows": (far, 0), "value_squares": (self.squares * square, 0)}
        if self.tokens == 1:
            return token
        names = [f"{name}{strip}" for name in ("scores", "shares") for strip in range(self.tokens // self.strip)]
        windows = {f"window_{name}": (line, 0) for name in names}
        return {**token, "window_keys": (keys, 0), "window_mask": (0, line), **windows}

    def offsets(self, place: int) -> dict[str, int]:
        """The `offsets` of a run for tokens from a place on; LayerError beyond the places."""
        last, unit = self.places - self.tokens, self.alignment
        if not is_int(place) or not 0 <= place <= last or place % unit:
            rule = f"be from 0 to {last}" if unit == 1 else f"be a multiple of {unit} from 0 to {last}"
            self._refuse("place", rule, place)
        group, row = divmod(place, self.config.block_out)
        return {part: group * far + row * near for part, (far, near) in self.part_strides.items()}

    @property
    def masked_score(self) -> float:
        """What the scores of places without a key are before they are rounded to 8 bits."""
        return LOW * HIGH * self.config.block_out * self.masks * float(self.score)
