"""How sums leave an operator: raw, or requantised to the type of activations, with their layout in DRAM.

Every template's results are [n, c, ..., batch, block_out]. A lane of the scale tensor belongs to one channel, and where
that is not enough (the phases of a transposed convolution, the borders of an average) to one class of positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.operators.vdla.operator import Array, Factors, TemplateError
from vdla.compiler.operators.vdla.packing import check_array, check_factors, check_range, pack_scales
from vdla.compiler.operators.vdla.roles import OUTPUT, RESULTS, SCALE
from vdla.hardware.config import Config
from vdla.support.integers import is_int

Classes = Callable[[tuple[te.Value, ...]], tuple[te.Value, ...]]


@dataclass(frozen=True)
class Results:
    """The options of an operator's results; `name` is the operator's."""

    config: Config
    name: str
    activation: str = "none"
    ceiling: int | None = None
    zero_point: int = 0
    raw: bool = False

    def check(self) -> None:
        """Refuse options out of range."""
        low, high = check_range(f"{self.name}: zero_point", self.zero_point, self.config.out_dtype)
        if self.activation not in ("none", "relu"):
            raise TemplateError(f"{self.name}: activation must be none or relu, got {self.activation!r}")
        low = max(low, self.zero_point) if self.activation == "relu" else low
        if not isinstance(self.raw, bool):
            raise TemplateError(f"{self.name}: raw must be True or False, got {self.raw!r}")
        if self.ceiling is not None and not (is_int(self.ceiling) and low <= self.ceiling <= high):
            raise TemplateError(f"{self.name}: ceiling must be in {low}..{high}, got {self.ceiling!r}")

    @property
    def bounds(self) -> tuple[int, int]:
        """The clip bounds: of the output type, raised to the zero point by relu, lowered to the ceiling."""
        half = 1 << (self.config.out_bits - 1)
        low = self.zero_point if self.activation == "relu" else -half
        return low, half - 1 if self.ceiling is None else self.ceiling

    def tensors(
        self, sums: te.Tensor, extents: tuple[int, ...] = (), classes: Classes = lambda i: ()
    ) -> list[te.Tensor]:
        """[(scale,) output]: the sums' results and their copy in DRAM.

        `extents` are the classes of positions that have lanes of their own; `classes` is the class of a position.
        """
        shape, low, high = sums.shape, *self.bounds
        if self.raw:
            results = te.compute(shape, lambda *i: sums[i], RESULTS)
            return [te.compute(shape, lambda *i: results[i], OUTPUT)]
        scale = te.placeholder((shape[1], *extents, shape[-1]), "int64", SCALE)

        def value(*i: te.Value) -> te.Value:
            lane = scale[(i[1], *classes(i), i[-1])]
            return requantisation(sums[i], lane, self.zero_point, low, high, self.config.out_dtype)

        results = te.compute(shape, value, RESULTS)
        return [scale, te.compute(shape, lambda *i: results[i], OUTPUT)]

    def pack(
        self, channels: int, bias: Array | None, multiplier: Factors, offset: Array, counts: Array | int = 1
    ) -> dict[str, Array]:
        """The scale tensor: bias + offset and multiplier / counts of each channel; nothing for raw sums.

        `offset` is [channels, *extents], and `counts` broadcasts to it.
        """
        if self.raw:
            if bias is not None or multiplier is not None:
                given = "a bias" if bias is not None else "a multiplier"
                raise TemplateError(f"{self.name}: raw sums must have no bias and no multiplier, got {given}")
            return {}
        biases = np.zeros(channels, np.int64) if bias is None else check_array("bias", bias, (channels,), "int32")
        factors = check_factors("multiplier", 1.0 if multiplier is None else multiplier, channels)
        each = (channels,) + (1,) * (offset.ndim - 1)
        lanes, real = np.broadcast_arrays(biases.reshape(each) + offset, factors.reshape(each) / counts)
        return {"scale": pack_scales(lanes, real, self.config.block_out)}
