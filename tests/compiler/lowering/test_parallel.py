# SPDX-License-Identifier: Apache-2.0
"""Only one level of parallel loops remains."""

from helpers.loop_nests import PARALLEL, function, loop, store, text

from vdla.compiler.lowering.pipeline import serialise_nested


def test_an_inner_parallel_loop_becomes_serial():
    inner = loop("j", 8, loop("k", 2, store("c", "i", "j", value=0), kind=PARALLEL), kind=PARALLEL)
    fn = function(loop("i", 4, inner, kind=PARALLEL), c=(4, 8))
    assert (
        text(serialise_nested(fn))
        == """
for i in parallel(4):
    for j in range(8):
        for k in range(2):
            c[i, j] = 0
"""
    )


def test_parallel_loops_in_sequence_are_kept():
    fn = function(loop("r", 2, *(loop(v, 4, store("c", v, value=0), kind=PARALLEL) for v in "ij")), c=(4,))
    assert serialise_nested(fn) == fn
