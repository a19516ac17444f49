# SPDX-License-Identifier: Apache-2.0
"""Trains the network `digits` in NumPy: `python -m vdla.networks.digits_training`.

It takes about 15 seconds on one core and prints the accuracy on the held-out images; `--write`
stores the weights beside this file. Equal seeds give equal weights up to the rounding of the
machine's matrix products, so the stored ones are part of the sources.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from vdla.networks.digits_images import CLASSES, LabelledImages, held_out_digits, training_digits
from vdla.networks.training_layers import (
    AverageAndDense,
    BatchNorm,
    Convolution,
    Floats,
    Layer,
    MaxPool,
    Rectifier,
)
from vdla.support.arrays import Array, Ints
from vdla.support.atomic import write_bytes

WEIGHTS = "digits_weights.npz"
STEM, CHANNELS = 16, 32
EPOCHS, BATCH = 40, 64
_RATE, _DECAY = 4e-3, 1e-3  # of Adam, decoupled
_BETAS, _TINY = (0.9, 0.999), 1e-8


class DigitsTrainer:
    """The network: two convolutions, a pool, a residual block, average and dense layer."""

    def __init__(self, seed: int = 0) -> None:
        rng = default_rng(seed)
        sizes = ((1, STEM), (STEM, CHANNELS), (CHANNELS, CHANNELS), (CHANNELS, CHANNELS))
        self.convs = [Convolution(rng, *size) for size in sizes]
        self.norms = [BatchNorm(channels) for _, channels in sizes]
        self.relus = [Rectifier() for _ in sizes]
        self.pool, self.head = MaxPool(), AverageAndDense(rng, CHANNELS, CLASSES)
        self.layers: dict[str, Layer] = {f"conv{at + 1}": layer for at, layer in enumerate(self.convs)}
        self.layers |= {f"bn{at + 1}": layer for at, layer in enumerate(self.norms)} | {"logits": self.head}

    def forward(self, images: Floats, training: bool = False) -> Floats:
        """[N, 1, 8, 8] to logits [N, 10]."""
        x = self._unit(0, images, training)
        x = self.pool.forward(self._unit(1, x, training), training)
        y = self._unit(2, x, training)
        y = self.norms[3].forward(self.convs[3].forward(y, training), training)
        return self.head.forward(self.relus[3].forward(x + y, training), training)

    def backward(self, gradient: Floats) -> None:
        """Fills the gradients of all layers."""
        both = self.relus[3].backward(self.head.backward(gradient))
        branch = self.convs[3].backward(self.norms[3].backward(both))
        x = both + self._unit_backward(2, branch)
        self._unit_backward(0, self._unit_backward(1, self.pool.backward(x)))

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """All arrays by name, running statistics included."""
        arrays = {
            f"{name}.{key}": array for name, layer in self.layers.items() for key, array in layer.parameters.items()
        }
        for at, norm in enumerate(self.norms):
            arrays |= {f"bn{at + 1}.mean": norm.mean, f"bn{at + 1}.variance": norm.variance}
        return {name: array.astype(np.float32) for name, array in arrays.items()}

    def _unit(self, at: int, x: Floats, training: bool) -> Floats:
        y = self.norms[at].forward(self.convs[at].forward(x, training), training)
        return self.relus[at].forward(y, training)

    def _unit_backward(self, at: int, gradient: Floats) -> Floats:
        return self.convs[at].backward(self.norms[at].backward(self.relus[at].backward(gradient)))


class _Adam:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.step = 0
        self.moments: dict[int, tuple[Floats, Floats]] = {
            id(array): (np.zeros_like(array), np.zeros_like(array))
            for layer in layers
            for array in layer.parameters.values()
        }

    def update(self, rate: float) -> None:
        """One step along the gradients."""
        self.step += 1
        for layer in self.layers:
            for key, array in layer.parameters.items():
                first, second = self.moments[id(array)]
                gradient = layer.gradients[key]
                first += (1 - _BETAS[0]) * (gradient - first)
                second += (1 - _BETAS[1]) * (gradient**2 - second)
                mean = first / (1 - _BETAS[0] ** self.step)
                spread = np.sqrt(second / (1 - _BETAS[1] ** self.step)) + _TINY
                array -= rate * (mean / spread + _DECAY * array * (array.ndim > 1))


def train(
    data: LabelledImages, epochs: int = EPOCHS, seed: int = 0, report: Callable[[int, float], None] | None = None
) -> DigitsTrainer:
    """A trained network; `report(epoch, loss)` is called after each epoch."""
    from threadpoolctl import threadpool_limits

    network, rng = DigitsTrainer(seed), default_rng([seed, 1])
    optimiser = _Adam(list(network.layers.values()))
    steps = epochs * (len(data.labels) // BATCH)
    with threadpool_limits(1):  # threads cost more than they save on matrices of this size
        for epoch in range(epochs):
            loss = _train_epoch(network, optimiser, data, rng, steps)
            if report is not None:
                report(epoch, loss)
    return network


def _train_epoch(network: DigitsTrainer, optimiser: _Adam, data: LabelledImages, rng: Generator, steps: int) -> float:
    """The mean loss; the rate falls to 0 along a cosine over `steps`."""
    losses = []
    for rows in _batches(rng, len(data.labels)):
        logits = network.forward(_shifted(rng, data.images[rows]), training=True)
        loss, gradient = cross_entropy(logits, data.labels[rows])
        network.backward(gradient)
        optimiser.update(_RATE * (1 + np.cos(np.pi * optimiser.step / steps)) / 2)
        losses.append(loss)
    return float(np.mean(losses))


def cross_entropy(logits: Floats, labels: Ints) -> tuple[float, Floats]:
    """The mean loss of a batch and its gradient."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    shares = np.exp(shifted)
    shares /= shares.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(shares[rows, labels] + 1e-12).mean())
    shares[rows, labels] -= 1
    return loss, shares / len(labels)


def _batches(rng: Generator, count: int) -> Iterator[Array]:
    order = rng.permutation(count)
    for first in range(0, count - BATCH + 1, BATCH):
        yield order[first : first + BATCH]


def _shifted(rng: Generator, images: Floats) -> Floats:
    """Each image moved by up to a pixel in both directions."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = images.shape[2]
    moves = rng.integers(0, 3, (len(images), 2))
    return np.stack([image[:, y : y + size, x : x + size] for image, (y, x) in zip(padded, moves, strict=True)])


def _report(epoch: int, loss: float) -> None:
    print(f"epoch {epoch}: loss {loss:.4f}")


def main(words: Sequence[str] | None = None) -> None:
    """Train, print the accuracy, store the weights on request."""
    parser = argparse.ArgumentParser(description="Train the network of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"store the weights in {WEIGHTS}")
    arguments = parser.parse_args(words)
    network = train(training_digits(), arguments.epochs, arguments.seed, _report)
    held_out = held_out_digits()
    print(f"top-1 on {len(held_out.labels)} held-out images: {held_out.top1(network.forward(held_out.images)):.2%}")
    if arguments.write:
        stored = io.BytesIO()
        np.savez_compressed(stored, allow_pickle=False, **network.weights())
        write_bytes(Path(__file__).with_name(WEIGHTS), stored.getvalue())


if __name__ == "__main__":
    main()
