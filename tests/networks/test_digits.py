# SPDX-License-Identifier: Apache-2.0
"""The network of handwritten digits: its images, its accuracy in float32 and int8, its training."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from helpers.integer_evaluator import evaluate
from helpers.quantiser import to_qdq
from helpers.quantiser.graphs import session

from vdla.networks.digits import digits
from vdla.networks.digits_images import held_out_digits, load_arrays, training_digits
from vdla.networks.digits_training import DigitsTrainer, cross_entropy, main, train


def test_images_are_those_of_scikit_learn() -> None:
    """The digest is that of `load_digits().images.astype("uint8")` of scikit-learn 1.9."""
    stored = load_arrays("digits_images.npz")
    assert stored["images"].shape == (1797, 8, 8)
    assert hashlib.sha256(stored["images"].tobytes()).hexdigest()[:16] == "8f26b2bd9d135c25"
    assert np.bincount(stored["labels"]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_held_out_images_are_not_in_the_training_set() -> None:
    training, held_out = training_digits(), held_out_digits()
    assert (len(training.labels), len(held_out.labels)) == (1197, 600)
    assert held_out.images.dtype == np.float32
    assert (held_out.images.min(), held_out.images.max()) == (0, 1)
    assert np.bincount(held_out.labels).min() > 40
    both = np.concatenate([training.labels, held_out.labels])
    assert np.array_equal(np.bincount(both), np.bincount(load_arrays("digits_images.npz")["labels"]))
    assert hashlib.sha256(held_out.labels.tobytes()).hexdigest()[:16] == "011898e99787a8d2"


def test_float_accuracy_on_held_out_images() -> None:
    held_out = held_out_digits()
    [logits] = session(digits(batch="N")).run(None, {"image": held_out.images})
    assert held_out.top1(logits) >= 0.97


@pytest.mark.parametrize("uint8", [False, True], ids=["int8", "uint8"])
def test_accuracy_in_eight_bits_is_within_half_a_point(uint8: bool) -> None:
    held_out, model = held_out_digits(), digits(batch="N")
    [logits] = session(model).run(None, {"image": held_out.images})
    qdq = to_qdq(model, [{"image": training_digits().images[:256]}], uint8=uint8)
    [quantised] = evaluate(qdq, {"image": held_out.images}).outputs.values()
    assert abs(held_out.top1(quantised) - held_out.top1(logits)) <= 0.005


def test_the_onnx_model_is_the_trained_network() -> None:
    network = DigitsTrainer()
    stored = load_arrays("digits_weights.npz")
    assert {name: array.shape for name, array in stored.items()} == {
        name: array.shape for name, array in network.weights().items()
    }
    for name, layer in network.layers.items():
        for key in layer.parameters:
            layer.parameters[key] = stored[f"{name}.{key}"]
    for at, norm in enumerate(network.norms):
        norm.mean, norm.variance = stored[f"bn{at + 1}.mean"], stored[f"bn{at + 1}.variance"]
    images = held_out_digits().images[:8]
    [logits] = session(digits(batch=8)).run(None, {"image": images})
    assert np.allclose(network.forward(images), logits, rtol=1e-4, atol=1e-4)


def test_training_learns_and_repeats() -> None:
    first, second = (train(training_digits(), epochs=2, seed=3) for _ in range(2))
    assert all(np.array_equal(array, second.weights()[name]) for name, array in first.weights().items())
    held_out = held_out_digits()
    assert held_out.top1(first.forward(held_out.images)) > 0.6


def test_the_script_prints_the_accuracy(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--epochs", "1", "--seed", "5"])
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == ["epoch 0", "top-1 on 600 held-out images"]


def test_cross_entropy_of_two_classes_by_hand() -> None:
    """-log(3 / 4) for logits log 3 and 0; the gradient is share minus one."""
    loss, gradient = cross_entropy(np.log(np.array([[3.0, 1.0]])), np.array([0]))
    assert loss == pytest.approx(-np.log(0.75))
    assert np.allclose(gradient, [[-0.25, 0.25]])
