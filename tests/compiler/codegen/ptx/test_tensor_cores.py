# SPDX-License-Identifier: Apache-2.0
"""Steps of tensor cores in PTX: mma.sync on registers that ldmatrix fills, or else loads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.gpu_on_cpu import run_on_cpu
from helpers.ptx import needs_ptxas
from helpers.warp_product import RowsOfB, placed_product, small_integers, warp_product

from vdla.compiler.codegen.llvm.intrinsics.mma import mma
from vdla.compiler.codegen.ptx import assemble_ptx, emit_ptx
from vdla.compiler.target import GridLimits

LIMITS = GridLimits("a device", warp=32)
TYPES = {"float16": "f32.f16.f16.f32", "bfloat16": "f32.bf16.bf16.f32", "int8": "s32.s8.s8.s32"}
MATRIX_OF_A, COLUMNS_OF_B, ROWS_OF_B = "x4.shared.b16", "x2.trans.shared.b16", "x2.shared.b16"


def matrices(text: str) -> list[str]:
    """The forms of ldmatrix in a text, in its order."""
    return re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.(\S+) ", text)


@pytest.mark.parametrize("rows", RowsOfB)
@pytest.mark.parametrize("dtype", TYPES)
def test_a_step_is_one_instruction_on_loaded_matrices(dtype: str, rows: RowsOfB) -> None:
    text = emit_ptx(warp_product(dtype, rows).fn, LIMITS).text
    terms, steps = (32, 1) if dtype == "int8" else (16, 2)
    assert text.count("mma.sync") == text.count(f"m16n8k{terms}.row.col.{TYPES[dtype]}") == 2 * steps
    of_b = COLUMNS_OF_B if rows is RowsOfB.TERMS else ROWS_OF_B
    by_elements = dtype == "int8" and rows is RowsOfB.TERMS  # ldmatrix transposes 16 bits only
    assert matrices(text) == [MATRIX_OF_A, *(() if by_elements else (of_b, of_b))] * steps
    assert len(re.findall(r"ld\.shared\.\w*8", text)) == (16 if by_elements else 0)


def test_rows_that_are_not_aligned_are_loaded_by_elements() -> None:
    s = placed_product()
    s.storage_align("a_shared", 0, 2, 1)  # rows of an odd number of elements
    s.tensorize("c", mma())
    text = emit_ptx(s.fn, LIMITS).text
    assert matrices(text) == [COLUMNS_OF_B] * 4
    assert text.count("ld.shared.b16") == 2 * 8


def test_an_older_device_computes_lane_by_lane() -> None:
    text = emit_ptx(warp_product().fn, LIMITS, "sm_75").text
    assert "mma.sync" not in text
    assert "fma.rn.f32" in text


@needs_ptxas
@pytest.mark.parametrize("rows", RowsOfB)
@pytest.mark.parametrize("dtype", TYPES)
def test_sums_stay_in_registers(dtype: str, rows: RowsOfB) -> None:
    (kernel,) = assemble_ptx(emit_ptx(warp_product(dtype, rows).fn, LIMITS)).kernels
    assert (kernel.spills, kernel.stack, kernel.shared_bytes) == (0, 0, 1536)


@pytest.mark.parametrize("rows", RowsOfB)
@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.long), "int8"])
def test_a_warp_computes_the_product(dtype: str, rows: RowsOfB) -> None:
    inputs, expected = small_integers(dtype, rows)
    got = run_on_cpu(warp_product(dtype, rows).fn, LIMITS, inputs)["c"]
    np.testing.assert_array_equal(got, expected)
