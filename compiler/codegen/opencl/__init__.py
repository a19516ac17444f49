# SPDX-License-Identifier: Apache-2.0
"""Code generation for devices that run OpenCL: from a function to kernels in OpenCL C."""

from __future__ import annotations

from vdla.compiler.abi import Launch
from vdla.compiler.codegen.opencl.compile import OpenClSource, emit_opencl
from vdla.compiler.codegen.opencl.source_text import OpenClError

__all__ = ["Launch", "OpenClError", "OpenClSource", "emit_opencl"]
