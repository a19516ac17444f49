# SPDX-License-Identifier: Apache-2.0
"""What the PTX of a product on tensor cores consists of."""

from __future__ import annotations

from vdla.benchmarks.gpu.ptx import loops_of, ptx_figures


def test_the_inner_loop_of_a_large_product_is_steps_and_wide_loads() -> None:
    figures, _ = ptx_figures()
    wanted = {"ptx_steps": 32, "ptx_loads": 4, "ptx_narrow_loads": 0, "ptx_bank_conflicts": 0}
    assert {name: figures[name] for name in wanted} == wanted
    assert figures.get("ptx_spills", 0) == 0  # where ptxas is installed


def test_a_loop_goes_from_a_label_to_the_jump_back() -> None:
    text = "$A:\n  bra $B;\n$B:\n  mma.sync;\n  @%p1 bra $B;\n  @%p2 bra.uni $A;\n"
    inner, outer = loops_of(text)
    assert inner == "$B:\n  mma.sync;\n  @%p1 bra $B;"
    assert outer.startswith("$A:")
