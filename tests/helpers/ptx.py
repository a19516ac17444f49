# SPDX-License-Identifier: Apache-2.0
"""The mark of tests that need `ptxas`."""

from __future__ import annotations

import pytest

from vdla.compiler.codegen.ptx.assemble import find_ptxas

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="ptxas must be installed: the extra cuda has it")
