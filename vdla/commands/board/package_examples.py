# SPDX-License-Identifier: Apache-2.0
"""What the notebooks of an overlay's package use: a program, a small network, and their results.

A board has neither the compiler nor the simulator, so that both run where the package is made.
"""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.support.arrays import Array

_ROWS, _IN, _OUT = 64, 256, 64
_SHIFT = 2.0**-10
_CALIBRATION, _IMAGES = 64, 20


def package_examples(config: Config, cpu: str) -> dict[str, bytes]:
    """The files by name; `cpu` is beside the machine, and runs parts of the network."""
    return {**_program(config), **_network(config, cpu)}


def _program(config: Config) -> dict[str, bytes]:
    """A dense layer with packed inputs, and the output that the simulator gives."""
    from vdla.compiler.templates import dense
    from vdla.simulator.simulate import simulate

    layer = dense(config, rows=_ROWS, in_features=_IN, out_features=_OUT)
    rng = np.random.default_rng(0)
    data, weight = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((_ROWS, _IN), (_OUT, _IN)))
    arrays = layer.pack(data, weight, multiplier=_SHIFT)
    expected = simulate(layer.program, arrays, config).outputs["output"]
    return {"dense.vdla": layer.program.to_bytes(), "dense.npz": _npz({**arrays, "expected": expected})}


def _network(config: Config, cpu: str) -> dict[str, bytes]:
    """The network for handwritten digits, held-out images, and logits of the simulator."""
    from vdla.networks.digits import digits
    from vdla.networks.digits_images import held_out_digits, training_digits
    from vdla.runtime.network.compile_network import compile_network

    model, calibration, held_out = digits(), training_digits().images[:_CALIBRATION], held_out_digits()
    images, labels = held_out.images[:_IMAGES], held_out.labels[:_IMAGES]
    simulated = compile_network(model, config, calibration=calibration)
    logits = np.concatenate([simulated.run({"image": image[None]}).outputs["logits"] for image in images])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "digits.vdla"
        compile_network(model, config, cpu=cpu, calibration=calibration).save(path)
        content = path.read_bytes()
    return {"digits.vdla": content, "digits.npz": _npz({"images": images, "labels": labels, "logits": logits})}


def _npz(arrays: dict[str, Array]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()
