# SPDX-License-Identifier: Apache-2.0
"""Every operator, conversion and function of every type is PTX that `ptxas` takes."""

from __future__ import annotations

import pytest
from helpers.all_values import all_values
from helpers.ptx import needs_ptxas

from vdla.compiler.codegen.ptx import assemble_ptx, emit_ptx
from vdla.compiler.ir import DTYPES
from vdla.compiler.target import GridLimits

SHORT = ("float16", "float64")


@needs_ptxas
@pytest.mark.parametrize(
    "dtype", [dtype if dtype in SHORT else pytest.param(dtype, marks=pytest.mark.long) for dtype in DTYPES]
)
def test_all_values_of_a_type(dtype: str) -> None:
    source = emit_ptx(all_values(dtype, 64), GridLimits("a device"))
    (kernel,) = assemble_ptx(source).kernels
    assert (kernel.spills, kernel.stack) == (0, 0)
    assert "call" not in source.text
