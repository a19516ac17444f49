# SPDX-License-Identifier: Apache-2.0
"""The default schedule preserves results, vectorises, parallelises, and accepts every function."""

import numpy as np
import pytest
from helpers.run_operator import floats, function_of, integers, run

from vdla.compiler import ir, operators, te
from vdla.compiler.interpret import interpret
from vdla.compiler.lowering import lower
from vdla.compiler.operators import (
    OperatorError,
    conv_transpose,
    gather,
    pad,
    resize_linear,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.row_schedule import fuse_rows
from vdla.compiler.operators.cpu.stage_schedule import attempt
from vdla.compiler.schedule import Schedule
from vdla.compiler.target import TARGETS, Target
from vdla.runtime.native import build
from vdla.verification.fuzz.cases import _alike
from vdla.verification.fuzz.functions import random_problem

LARGE = floats((5, 37, 50))
CASES = {
    "chain": (lambda x: operators.relu(operators.sigmoid(operators.add(x, x, "twice"))), LARGE),
    "row": (operators.multiply, LARGE, floats((37, 1))),
    "sum_rows": (lambda x: operators.sum(x, 0), LARGE),
    "sum_columns": (lambda x: operators.sum(x, -1), LARGE),
    "mean_of_all": (lambda x: operators.mean(x), LARGE),
    "max_of_integers": (lambda x: operators.max(x, (0, 2)), integers((5, 7, 50), "int8")),
    "softmax": (operators.softmax, LARGE),
    "softmax_outer": (lambda x: operators.softmax(x, 0), LARGE),
    "layer_norm": (operators.layer_norm, LARGE),
    "group_norm": (lambda x, s: operators.group_norm(x, s, s, 2), floats((2, 4, 30)), floats(4)),
    "transpose": (lambda x: operators.transpose(x, (2, 1, 0)), LARGE),
    "reshape": (lambda x: operators.reshape(x, (50, 37, 5)), LARGE),
    "concat": (lambda x, y: operators.concat([x, y], 1), LARGE, floats((5, 3, 50))),
    "max_pool": (lambda x: operators.max_pool(x, 3, 2, 1), LARGE[None]),
    "average_pool": (lambda x: operators.average_pool(x, 2, 1, ceil_mode=True), LARGE[None]),
    "gather": (lambda x, i: gather(x, i, 1), LARGE, integers((3,), "int64", low=-37, high=37)),
    "pad": (lambda x: operators.relu(pad(x, (0, 1, 2, 1, 0, 2), mode="reflect")), LARGE),
    "resize": (lambda x: resize_linear(x, (5, 30, 71)), LARGE),
    "conv_transpose": (lambda x, w: conv_transpose(x, w, None, 2, 1), floats((1, 5, 9, 11)), floats((5, 3, 3, 3))),
}


def scheduled(name):
    operator, *arrays = CASES[name]
    fn, (output,) = function_of(operator, *arrays)
    return fn, dict(zip("abcd", arrays, strict=False)), output.name


def loops(fn, kind):
    return [s for s in ir.walk(fn.body) if isinstance(s, ir.For) and s.kind is kind]


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_default_schedules_preserve_results(name):
    fn, arrays, output = scheduled(name)
    expected = interpret(fn, arrays)[output]
    for target in ("x86-64-avx512", "cortex-a9"):
        got = interpret(default_schedule(fn, target).fn, arrays)[output]
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_native_code_agrees_with_the_interpreter(name):
    fn, arrays, output = scheduled(name)
    got = build(default_schedule(fn).fn)(*arrays.values())
    np.testing.assert_allclose(got, interpret(fn, arrays)[output], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_loop_nest_has_lanes(name):
    fn, _, _ = scheduled(name)
    found = loops(default_schedule(fn, "x86-64-avx2").fn, ir.LoopKind.VECTORIZE)
    assert found or name == "transpose"


def test_lanes_are_those_of_the_target_and_the_dtype():
    x = integers((4, 256), "int16")
    fn, _ = function_of(operators.relu, x)
    for target in TARGETS.values():
        (lanes,) = loops(default_schedule(fn, target).fn, ir.LoopKind.VECTORIZE)
        assert lanes.extent == target.vector_bytes // 2


@pytest.mark.parametrize("name", ["sum_rows", "sum_columns"])
def test_lanes_of_reductions_are_innermost(name):
    lanes = loops(default_schedule(scheduled(name)[0], "x86-64-avx2").fn, ir.LoopKind.VECTORIZE)
    assert lanes
    assert all(isinstance(loop.body, ir.Block) for loop in lanes)


def test_odd_rows_become_one_loop_and_whole_rows_stay():
    odd, _ = function_of(operators.relu, floats((3, 5, 7)))
    assert len([s for s in ir.walk(default_schedule(odd).fn.body) if isinstance(s, ir.For)]) == 2
    whole, _ = function_of(operators.relu, floats((3, 5, 64)))
    assert "//" not in str(default_schedule(whole).fn)


def test_conditions_on_outer_loops_stay_out_of_vectors():
    """A concatenation copies runs of the fewest dimensions that are whole vectors."""
    fn, _ = function_of(lambda x, y: operators.concat([x, y], 1), floats((2, 3, 6, 8)), floats((2, 5, 6, 8)))
    made = default_schedule(fn, "x86-64-avx512").fn
    assert [loop.extent for loop in ir.walk(made.body) if isinstance(loop, ir.For)] == [2, 8, 3, 16]


def test_lanes_of_a_repeated_row_are_along_one_copy_of_it():
    x = floats((3, 40))
    fn, _ = function_of(lambda x: operators.tile(x, (2, 5)), x)
    made = default_schedule(fn, "x86-64-avx2").fn
    assert [loop.extent for loop in ir.walk(made.body) if isinstance(loop, ir.For)] == [6, 5, 5, 8]
    assert "% 40" not in str(lower(made, TARGETS["x86-64-avx2"]))
    (found,) = interpret(made, {fn.params[0]: x}).values()
    assert np.array_equal(found, np.tile(x, (2, 5)))


@pytest.mark.parametrize(("target", "widths"), [("x86-64-avx512", [32, 16, 4]), ("cortex-a9", [16, 4])])
def test_long_reductions_have_several_vectors_of_partial_results(target, widths):
    x = floats((3, 1000))
    fn, _ = function_of(lambda x: operators.max(x, -1), x)
    made = default_schedule(fn, target).fn
    assert [loop.extent for loop in loops(made, ir.LoopKind.VECTORIZE)] == widths
    unrolled = [loop.extent for loop in loops(made, ir.LoopKind.UNROLL)]
    assert unrolled == [wide // narrow for wide, narrow in zip(widths, [*widths[1:], 1], strict=True)]
    (found,) = interpret(made, {fn.params[0]: x}).values()
    assert np.array_equal(found, x.max(-1))


def test_only_large_loops_run_in_parallel():
    small, _ = function_of(operators.relu, floats((8, 64)))
    large, _ = function_of(operators.relu, floats((8, 16, 1024)))
    assert loops(default_schedule(small).fn, ir.LoopKind.PARALLEL) == []
    (shared,) = loops(default_schedule(large).fn, ir.LoopKind.PARALLEL)
    assert shared.extent == 8 * 16


def test_cheap_stages_are_inlined_and_expensive_ones_are_not_repeated():
    fn, _, _ = scheduled("chain")
    assert blocks(default_schedule(fn).fn) == ["twice_sigmoid_relu"]
    dear, _ = function_of(lambda x: operators.sum(operators.broadcast_to(operators.exp(x), (9, 50))), floats((1, 50)))
    assert "a_exp" in blocks(default_schedule(dear).fn)


def blocks(fn):
    return [s.name for s in ir.walk(fn.body) if isinstance(s, ir.Block)]


def test_a_stage_that_is_an_output_is_not_inlined():
    x = te.placeholder((6,), "float32", "a")
    y = operators.relu(x, "y")
    fn = te.create_function([x], [y, operators.square(y, "z")], "f")
    a = floats(6)
    got = interpret(default_schedule(fn).fn, {"a": a})
    np.testing.assert_array_equal(got["z"], np.maximum(a, 0) ** 2)


@pytest.mark.parametrize("seed", range(60))
def test_every_random_function_has_a_schedule_that_computes_the_same(seed):
    problem = random_problem(seed)
    schedule = default_schedule(problem.fn, Target.named("x86-64-avx2"))
    expected, got = interpret(problem.fn, problem.arrays), interpret(schedule.fn, problem.arrays)
    assert all(_alike(expected[name], got[name], problem.rough) for name in expected), schedule.python()


def test_a_failed_attempt_leaves_the_schedule_unchanged():
    fn, _, output = scheduled("row")
    schedule = Schedule(fn)
    outer = schedule.loops(output)[0]
    assert not attempt(schedule, lambda: (schedule.split(outer, factor=2), schedule.unroll("nowhere")))
    assert schedule.fn is fn
    assert schedule.loops(output)[0] == outer


def test_invalid_targets_are_refused():
    fn, _, _ = scheduled("row")
    with pytest.raises(OperatorError) as error:
        default_schedule(fn, None)
    assert str(error.value) == "default_schedule: target must be a name or a Target, got None"


def test_a_broadcast_product_equals_numpy():
    operator, *arrays = CASES["row"]
    np.testing.assert_array_equal(run(operator, *arrays), arrays[0] * arrays[1])


def test_rows_of_a_softmax_are_computed_one_after_the_other():
    x = floats((4, 40, 256))
    fn, (output,) = function_of(operators.softmax, x)
    made = default_schedule(fn, "x86-64-avx512").fn
    assert isinstance(made.body, ir.For)
    assert made.body.kind is ir.LoopKind.PARALLEL
    assert made.body.extent == 4 * 40
    np.testing.assert_allclose(interpret(made, {"a": x})[output.name], interpret(fn, {"a": x})[output.name], rtol=1e-6)


def test_small_and_short_rows_stay_stages():
    for shape in ((2, 8, 16), (1000, 64, 4)):
        fn, _ = function_of(operators.softmax, floats(shape))
        schedule = Schedule(fn)
        assert fuse_rows(schedule) == []
        assert schedule.fn == fn


def test_rows_behind_an_operator_stay_stages():
    fn, _ = function_of(lambda x, y: operators.softmax(operators.matmul(x, y)), floats((64, 32)), floats((32, 256)))
    schedule = Schedule(fn)
    assert fuse_rows(schedule) == []
    assert schedule.fn == fn
