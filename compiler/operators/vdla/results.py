"""The results of an operator: raw sums, or sums requantised to the type of activations.

Results are [n, c, ..., batch, block_out] in every template. A lane of the scale tensor belongs to
one channel and, for some templates, to one class of positions: the phases of a transposed
convolution, the borders of an average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.operators.vdla.checks import check_array, check_factors, check_range
from vdla.compiler.operators.vdla.operator import Array, Factors, TemplateError
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scales_from_floats, wrap32
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
    floor: int | None = None

    def check(self, input_zero_point: int = 0) -> None:
        """Reject options out of range, and a zero point of inputs that raw sums would hold."""
        low, high = check_range(f"{self.name}: zero_point", self.zero_point, self.config.out_dtype)
        if self.activation not in ("none", "relu"):
            raise TemplateError(f"{self.name}: activation must be none or relu, got {self.activation!r}")
        if self.floor is not None and not (is_int(self.floor) and low <= self.floor <= high):
            raise TemplateError(f"{self.name}: floor must be in {low}..{high}, got {self.floor!r}")
        low = self.bounds[0]
        if not isinstance(self.raw, bool):
            raise TemplateError(f"{self.name}: raw must be True or False, got {self.raw!r}")
        if self.raw:
            self._check_raw()
        if self.ceiling is not None and not (is_int(self.ceiling) and low <= self.ceiling <= high):
            raise TemplateError(f"{self.name}: ceiling must be in {low}..{high}, got {self.ceiling!r}")
        check_range(f"{self.name}: input_zero_point", input_zero_point, self.config.inp_dtype)
        if self.raw and input_zero_point:
            raise TemplateError(f"{self.name}: input_zero_point must be 0 for raw sums, got {input_zero_point}")

    def _check_raw(self) -> None:
        """Reject options of the requantisation, which raw sums skip."""
        for option, default in (("activation", "none"), ("floor", None), ("ceiling", None), ("zero_point", 0)):
            value = getattr(self, option)
            if value != default:
                raise TemplateError(f"{self.name}: {option} must be {default!r} for raw sums, got {value!r}")

    @property
    def bounds(self) -> tuple[int, int]:
        """The clip bounds: the output type's, raised by relu and floor, lowered by the ceiling."""
        low = self.zero_point if self.activation == "relu" else -self._half
        low = low if self.floor is None else max(low, self.floor)
        return low, self._half - 1 if self.ceiling is None else self.ceiling

    @property
    def _half(self) -> int:
        return 1 << (self.config.out_bits - 1)

    def lanes(
        self, channels: int, bias: Array | None, multiplier: Factors, offset: Array, counts: Array | int = 1
    ) -> Array | None:
        """[channels, *extents]: bias + offset and multiplier / counts of each, None if raw.

        `offset` is [channels, *extents], and `counts` broadcasts to it. Biases wrap to 32 bits, as
        sums do.
        """
        if self.raw:
            if bias is not None or multiplier is not None:
                given = "a bias" if bias is not None else "a multiplier"
                raise TemplateError(f"{self.name}: raw sums must have no bias and no multiplier, got {given}")
            return None
        sides = (channels,) + (1,) * (offset.ndim - 1)
        biases = np.zeros(channels, np.int64) if bias is None else check_array("bias", bias, (channels,), "int32")
        biases = biases.reshape(sides) + offset
        if multiplier is None:
            raise TemplateError(
                f"{self.name}: multiplier must be given to requantise the sums, got None; 1.0 only clips them, and "
                "with raw=True they stay int32"
            )
        factors = check_factors("multiplier", multiplier, channels)
        mult, shift = scales_from_floats(factors.reshape(sides) / counts)
        return np.asarray(pack_scale(wrap32(biases), mult, shift).view(np.int64))
