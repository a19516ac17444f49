# SPDX-License-Identifier: Apache-2.0
"""The C interface of compiled kernels: signatures, error codes, headers.

On-board code: needs NumPy only, and nothing of the compiler.
"""

from __future__ import annotations

from vdla.compiler.abi.header import kernel_header
from vdla.compiler.abi.signature import (
    ARGUMENT_SHIFT,
    DTYPE_CODES,
    MAX_EXTENT,
    MAX_THREADS,
    STATUS_TEXTS,
    Argument,
    ExtentExpr,
    KernelStatus,
    Launch,
    Signature,
    decode_status,
    element_bytes,
    evaluate_extent,
    format_extent,
    format_shape,
    signature_symbol,
)

__all__ = [
    "ARGUMENT_SHIFT",
    "DTYPE_CODES",
    "MAX_EXTENT",
    "MAX_THREADS",
    "STATUS_TEXTS",
    "Argument",
    "ExtentExpr",
    "KernelStatus",
    "Launch",
    "Signature",
    "decode_status",
    "element_bytes",
    "evaluate_extent",
    "format_extent",
    "format_shape",
    "kernel_header",
    "signature_symbol",
]
