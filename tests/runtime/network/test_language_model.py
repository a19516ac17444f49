# SPDX-License-Identifier: Apache-2.0
"""The LSTM language model, one token at a time: its state goes in and comes out of every run."""

import numpy as np
import onnxruntime
import pytest
from helpers.integer_evaluator import evaluate as exact
from helpers.quantiser import to_qdq

from vdla.compiler.graph.accelerator import candidates
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.hardware.config import Config
from vdla.networks.lstm_language_model import lstm_language_model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION
from vdla.runtime.network.evaluator import evaluate

WORDS, HIDDEN, STEPS = 50, 16, 6
SIZE = {"words": WORDS, "hidden": HIDDEN}
STATE = ("hidden0", "cell0", "hidden1", "cell1")
MACHINES = ("tiny", "pynq_z1", "batch4")


def one_step():
    return lstm_language_model(steps=1, carried=True, **SIZE)


def no_state():
    return {name: np.zeros((1, 1, HIDDEN), np.float32) for name in STATE}


def next_state(outputs):
    return {name: outputs[f"{name}.next"] for name in STATE}


def some_tokens():
    return np.random.default_rng(0).integers(0, WORDS, (1, STEPS))


def generated(run, prompt, count):
    """The most probable tokens after a prompt of one token, each the input of the next step."""
    token, state, tokens = prompt, no_state(), []
    for _ in range(count):
        outputs = run({"tokens": np.array([[token]]), **state})
        token, state = int(outputs["logits"].argmax()), next_state(outputs)
        tokens.append(token)
    return tokens


def test_steps_in_one_run_and_one_by_one():
    """The same bits, and those of the evaluator and of ONNX Runtime but for rounding."""
    tokens, state = some_tokens(), no_state()
    whole = lstm_language_model(steps=STEPS, **SIZE)
    wanted = evaluate(import_model(whole), {"tokens": tokens}, prefer="numpy")["logits"]
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    np.testing.assert_allclose(wanted, session.run(None, {"tokens": tokens})[0], rtol=0, atol=1e-5)
    with compile_network(whole) as model:
        together = model(tokens)
    np.testing.assert_allclose(together, wanted, rtol=0, atol=1e-5)
    with compile_network(one_step()) as model:
        for step in range(STEPS):
            outputs = model.run({"tokens": tokens[:, step : step + 1], **state}).outputs
            np.testing.assert_array_equal(outputs["logits"][:, 0], together[:, step])
            state = next_state(outputs)


def test_text_generated_as_by_onnx_runtime():
    session = onnxruntime.InferenceSession(one_step().SerializeToString())
    names = [output.name for output in session.get_outputs()]
    with compile_network(one_step()) as model:
        for prompt in (0, 7, WORDS - 1):
            ours = generated(lambda inputs: model.run(inputs).outputs, prompt, 8)
            theirs = generated(lambda inputs: dict(zip(names, session.run(None, inputs), strict=True)), prompt, 8)
            assert ours == theirs


@pytest.fixture(scope="module")
def quantised():
    """The model of one step with a quantised projection."""
    random = np.random.default_rng(1)
    samples = [
        {"tokens": random.integers(0, WORDS, (1, 1))}
        | {name: (random.standard_normal((1, 1, HIDDEN)) * 0.3).astype(np.float32) for name in STATE}
        for _ in range(4)
    ]
    return to_qdq(one_step(), samples)


def steps_of(compiled):
    """Inputs and outputs of every step, the state carried."""
    tokens, state = some_tokens(), no_state()
    for step in range(STEPS):
        inputs = {"tokens": tokens[:, step : step + 1], **state}
        outputs = compiled.run(inputs).outputs
        yield inputs, outputs
        state = next_state(outputs)


def test_quantised_on_the_cpu(quantised):
    """Logits to the bit; the state is that of float operators, whose last places may differ."""
    with compile_network(quantised) as compiled:
        for inputs, outputs in steps_of(compiled):
            wanted = exact(quantised, inputs).outputs
            np.testing.assert_array_equal(outputs["logits"], wanted["logits"])
            for name in STATE:
                np.testing.assert_allclose(outputs[f"{name}.next"], wanted[f"{name}.next"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("preset", MACHINES)
def test_quantised_with_the_projection_on_the_accelerator(quantised, preset):
    config = Config.preset(preset)
    graph = run_passes(import_model(quantised), (*PREPARATION, *INTEGER))
    place = dict.fromkeys(candidates(graph, config).calls, "vdla")
    assert place
    with compile_network(quantised, config, place=place) as accelerated, compile_network(quantised) as on_cpu:
        assert {op.op for step in accelerated.artifact.plan.steps if step.placement.device == "vdla"
                for op in step.placement.operators} >= {"vdla.QDense"}  # fmt: skip
        for (inputs, found), (_, wanted) in zip(steps_of(accelerated), steps_of(on_cpu), strict=True):
            np.testing.assert_array_equal(found["logits"], exact(quantised, inputs).outputs["logits"])
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("token", [-1, WORDS, 1 << 62, -(1 << 62)])
def test_a_token_outside_of_the_table_reads_nothing_else(token):
    """The nearest row; an index from -1 downwards counts from the end, as in ONNX."""
    row = WORDS - 1 if token > 0 or token == -1 else 0
    with compile_network(one_step()) as model:
        wrong, right = (model.run({"tokens": np.array([[t]]), **no_state()}).outputs["logits"] for t in (token, row))
    np.testing.assert_array_equal(wrong, right)
