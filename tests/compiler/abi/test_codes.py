# SPDX-License-Identifier: Apache-2.0
"""Constants of the C ABI, which must never change."""

from __future__ import annotations

from vdla.compiler.abi import ARGUMENT_SHIFT, DTYPE_CODES, STATUS_TEXTS, KernelStatus, decode_status, element_bytes


def test_a_return_value_holds_status_and_argument() -> None:
    assert decode_status(0x208) == (KernelStatus.OVERLAP, 2)
    assert ARGUMENT_SHIFT == 8
    assert list(STATUS_TEXTS) == list(KernelStatus)


def test_element_types_have_fixed_numbers_and_sizes() -> None:
    expected = {"bool": (1, 1), "int2": (2, 1), "int4": (3, 1), "int8": (4, 1), "int16": (5, 2), "uint8": (8, 1)}
    expected |= {"uint64": (11, 8), "float16": (12, 2), "bfloat16": (13, 2), "float32": (14, 4), "float64": (15, 8)}
    assert {name: (DTYPE_CODES[name], element_bytes(name)) for name in expected} == expected
