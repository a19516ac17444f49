# SPDX-License-Identifier: Apache-2.0
"""The GEMM intrinsic: (batch x block_in) . (block_out x block_in)^T, one per cycle."""

from __future__ import annotations

from typing import Any

from vdla.compiler.codegen.vdla.intrinsics import for_config
from vdla.compiler.extensions import base
from vdla.compiler.extensions.intrinsic import step_intrinsic
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config


@for_config
def gemm(config: Config) -> Intrinsic:
    """acc[b, o] += sum over i of inp[b, i] * wgt[o, i], in int32."""
    return step_intrinsic(base.gemm(config), config, _instruction)


def _instruction(_: Config, fields: dict[str, Any]) -> isa.Instruction:
    return isa.Gemm(**fields)
