# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers against loops over steps in NumPy, and against ONNX's reference."""

import ml_dtypes
import numpy as np
import pytest
from helpers.run_operator import floats, function_of, run

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, gru, lstm
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.cpu.block_nest import block_nests
from vdla.compiler.operators.recurrent import rnn
from vdla.compiler.operators.roles import OPERATOR
from vdla.runtime.native import build

T, N, WIDTH, H = 4, 2, 3, 5


def operands(gates, bias=True, dtype="float32"):
    arrays = [floats((T, N, WIDTH), dtype, 1), floats((gates * H, WIDTH), dtype, 2), floats((gates * H, H), dtype, 3)]
    return [*arrays, floats(2 * gates * H, dtype, 4)] if bias else arrays


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_model(x, w, r, b, h, c, reverse=False):
    ys = {}
    for t in range(len(x))[:: -1 if reverse else 1]:
        gates = x[t] @ w.T + h @ r.T + b[: 4 * H] + b[4 * H :]
        enter, leave, forget, new = np.split(gates, 4, axis=1)
        c = sigmoid(forget) * c + sigmoid(enter) * np.tanh(new)
        h = sigmoid(leave) * np.tanh(c)
        ys[t] = h
    return np.stack([ys[t] for t in range(len(x))]), h, c


def gru_model(x, w, r, b, h, linear, reverse=False):
    (wz, wr, wh), (rz, rr, rh) = np.split(w, 3), np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(b, 6)
    ys = {}
    for t in range(len(x))[:: -1 if reverse else 1]:
        z = sigmoid(x[t] @ wz.T + h @ rz.T + bz + cz)
        reset = sigmoid(x[t] @ wr.T + h @ rr.T + br + cr)
        inner = reset * (h @ rh.T + ch) if linear else (reset * h) @ rh.T + ch
        h = (1 - z) * np.tanh(x[t] @ wh.T + inner + bh) + z * h
        ys[t] = h
    return np.stack([ys[t] for t in range(len(x))]), h


def near(got, expected):
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_lstm_equals_a_loop_over_steps(dtype, direction):
    x, w, r, b = operands(4, dtype=dtype)
    h0, c0 = floats((N, H), dtype, 5), floats((N, H), dtype, 6)
    got = run(lambda x, w, r, b, h, c: lstm(x, w, r, b, h, c, direction), x, w, r, b, h0, c0)
    near(got, lstm_model(x, w, r, b, h0, c0, direction == "reverse"))


def test_lstm_starts_from_zero_without_bias_and_states():
    x, w, r = operands(4, bias=False)
    zero = np.zeros((N, H), np.float32)
    near(run(lstm, x, w, r), lstm_model(x, w, r, np.zeros(8 * H, np.float32), zero, zero))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("linear", [False, True])
def test_gru_equals_a_loop_over_steps(linear, direction):
    x, w, r, b = operands(3)
    h0 = floats((N, H), seed=5)
    got = run(lambda x, w, r, b, h: gru(x, w, r, b, h, linear, direction), x, w, r, b, h0)
    near(got, gru_model(x, w, r, b, h0, linear, direction == "reverse"))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_small_float_states_are_rounded_once_a_step(dtype):
    many, zero = 200, np.zeros((N, H))
    x = floats((1, N, many), seed=1, low=-1, high=1).astype(dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    for operator, gates in ((lstm, 4), (gru, 3)):
        sizes = ((gates * H, many), (gates * H, H), (2 * gates * H,))
        layer = [floats(size, seed=n, low=-1, high=1).astype(dtype) for n, size in enumerate(sizes)]
        wide = [array.astype(np.float64) for array in (x, *layer)]
        *_, expected = lstm_model(*wide, zero, zero) if operator is lstm else gru_model(*wide, zero, False)
        fn, _ = function_of(operator, x, *layer)
        for got in (run(operator, x, *layer), build(default_schedule(fn).fn)(x, *layer)):
            assert got[-1].dtype == dtype
            np.testing.assert_allclose(got[-1].astype(np.float64), expected, rtol=0.51 * eps, atol=eps / 1000)


def test_lstm_gates_are_in_onnx_order():
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    x, w, r, b = operands(4)
    node = onnx.helper.make_node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=H)
    feeds = {"x": x, "w": w[None], "r": r[None], "b": b[None]}
    y, h, c = (np.asarray(part, np.float32) for part in ReferenceEvaluator(node).run(None, feeds))
    near(run(lstm, x, w, r, b), (y.reshape(T, N, H), h.reshape(N, H), c.reshape(N, H)))


def test_a_scheduled_lstm_runs_natively():
    arrays = operands(4)
    fn, outputs = function_of(lambda x, w, r, b: lstm(x, w, r, b), *arrays)
    schedule = default_schedule(fn)
    expected = interpret(fn, dict(zip("abcd", arrays, strict=True)))
    near(build(schedule.fn)(*arrays), [expected[tensor.name] for tensor in outputs])


@pytest.mark.sampled
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("operator", "gates"), [(lstm, 4), (gru, 3), (rnn, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_transposed_weights_give_the_same(dtype, operator, gates, batch):
    hidden = 20  # not a multiple of the lanes
    shapes = ((T, batch, WIDTH), (gates * hidden, WIDTH), (gates * hidden, hidden), (2 * gates * hidden,))
    x, w, r, b = (floats(shape, dtype, n, -1, 1) for n, shape in enumerate(shapes))

    def turned(*operands):
        return operator(*operands, weight_layout="IO")

    operands = x, np.ascontiguousarray(w.T), np.ascontiguousarray(r.T), b
    fn, _ = function_of(turned, *operands)
    assert any(nest.leaf.block.annotations.get(OPERATOR) == "step_product" for nest in block_nests(fn))
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    for got, expected in zip(build(default_schedule(fn).fn)(*operands), run(operator, x, w, r, b), strict=True):
        np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance)


X, W = te.placeholder((T, N, WIDTH), "float32", "x"), te.placeholder((4 * H, WIDTH), "float32", "w")
R, B = te.placeholder((4 * H, H), "float32", "r"), te.placeholder((7,), "float32", "b")


@pytest.mark.parametrize(
    ("build_it", "message"),
    [
        (lambda: lstm(X, W, R, weight_layout="IO"), "lstm: weight must have the shape [3, 80], got [20, 3]"),
        (lambda: lstm(X, W, R, weight_layout="IOI"), "lstm: weight_layout must be one of OI, IO, got 'IOI'"),
        (lambda: lstm(X, R, R), "lstm: weight must have the shape [20, 3], got [20, 5]"),
        (lambda: lstm(X, W, R, B), "lstm: bias must have the shape [40], got [7]"),
        (lambda: gru(X, W, R), "gru: weight must have the shape [15, 3], got [20, 3]"),
        (lambda: lstm(W, W, R), "lstm: x must have 3 dimensions, got 2"),
        (lambda: lstm(5, W, R), "lstm: x must be a te.Tensor, got 5"),
        (
            lambda: lstm(X, W, R, initial_c=te.placeholder((N, H), "float64", "c")),
            "lstm: all operands must have one dtype, got float32, float64",
        ),
        (lambda: lstm(X, W, R, direction="both"), "lstm: direction must be one of forward, reverse, got 'both'"),
        (lambda: lstm(X, W, R, None, B), "lstm: initial_h must have 2 dimensions, got 1"),
    ],
)
def test_invalid_recurrent_arguments_are_refused(build_it, message):
    with pytest.raises(OperatorError) as error:
        build_it()
    assert str(error.value) == message
