# SPDX-License-Identifier: Apache-2.0
"""Certificates of instructions that move pixels through a line buffer and a window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.compiler.certificates import state_sequence
from vdla.compiler.certificates.certify import certify
from vdla.compiler.certificates.elementwise import Leaf, numbers, unknowns
from vdla.compiler.certificates.known_bounds import known_bounds, using_bounds
from vdla.compiler.certificates.network_certificate import certify_network
from vdla.compiler.certificates.operations import binary, cast
from vdla.compiler.certificates.requantise import requantised
from vdla.compiler.certificates.symbols import Symbols
from vdla.compiler.extensions import extend
from vdla.compiler.extensions.load import extension_of
from vdla.compiler.layer_programs import LayerProgram, written_programs
from vdla.compiler.operators.definitions import Definition, depthwise_convolution, scaling
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, EXTENSION, EXTENSION_COLUMN, isa_of, with_fields
from vdla.hardware.numerics import pack_scale
from vdla.networks.mobilenet import mobilenet_v3
from vdla.runtime.network.compile_network import compile_network

DEPTHWISE = Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py"


def programs_of(layer: Definition) -> list[LayerProgram]:
    """The programs of a layer on a machine with the example."""
    machine = extend(Config.preset("pynq_z1"), DEPTHWISE)
    return list(written_programs([extension_of(machine, machine.extensions[0])], layer, machine)[0].programs)


def case(size: int, kernel: int, strides: int) -> tuple[LayerProgram, Definition]:
    """A program of a layer of two blocks of channels, with padding that is not zero."""
    sizes: dict[str, Any] = {"size": (size, size), "kernel": kernel, "strides": strides, "pads": kernel // 2}
    layer = depthwise_convolution(batch=1, channels=24, **sizes, raw=False, fill=-5)
    return programs_of(layer)[-1], layer


@pytest.mark.parametrize("shape", [(12, 3, 1), (13, 3, 2), (9, 5, 1), (10, 5, 2)])
def test_pixels_are_moved_for_many_steps_at_once(shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    layer, wanted = case(*shape)
    evaluated, outputs = list[int](), state_sequence.StepBehaviour.outputs

    def counted(behaviour: state_sequence.StepBehaviour, count: int, *given: Any) -> Any:
        evaluated.append(count)
        return outputs(behaviour, count, *given)

    monkeypatch.setattr(state_sequence.StepBehaviour, "outputs", counted)
    certificate = certify(layer, wanted.output)
    assert certificate.holds, certificate
    assert sum(evaluated) > 4 * len(evaluated)  # 200 to 1,000 steps, and what a step moves


FAULTS = [("dw", "src0", 1), ("dw", "src", 1), ("dw", "fill", 1), ("dw_taps", "acc0", -1)]


@pytest.mark.parametrize(("name", "field", "more"), FAULTS)
def test_a_field_that_is_wrong_does_not_hold(name: str, field: str, more: int) -> None:
    layer, wanted = case(12, 3, 1)
    program, words = layer.program, layer.program.words.copy()
    number = [plug_in.name for plug_in in program.config.extensions].index(name)
    columns, places = program.columns, isa_of(program.config).col
    column = places.get(f"{name}.{field}", places.get(field))
    steps = (columns[:, COL["opcode"]] == EXTENSION) & (columns[:, EXTENSION_COLUMN] == number)
    index = int(np.flatnonzero(steps & (columns[:, column] != 0))[-1])
    value = columns[index, column] + more
    words[index] = with_fields(program.config, words[index : index + 1], {field: np.array([value])})[0]
    assert not certify(layer, wanted.output, program=replace(program, words=words), explain=False).holds


@pytest.mark.parametrize("zeros", [(0, 0), (-5, 3), (-128, -128)])
def test_halves_and_lowest_bit_of_a_factor_are_the_factor(zeros: tuple[int, int]) -> None:
    """Squeeze-and-excite: a pixel times two halves of the factor and its lowest bit."""
    layer = scaling(batch=1, channels=24, size=(3, 3), by_channel=True, zero_points=zeros, raw=False, dtype="int8")
    certificate = certify(programs_of(layer)[0], layer.output)
    assert certificate.holds, certificate


def test_sums_in_several_terms_have_the_bounds_of_the_operator() -> None:
    """A pixel from -128 on and its zero point, each times a factor: wider bounds, another clip."""
    pixel, factor = (cast(unknowns(name, (1,), "int8", 0), "int8", "int32") for name in ("pixel", "factor"))
    factor = binary("add", factor, numbers([128]), "int32")
    wanted = binary("mul", binary("add", pixel, numbers([118]), "int32"), factor, "int32")
    terms = (binary("mul", one, factor, "int32") for one in (pixel, numbers([118])))
    made = binary("add", *terms, "int32")
    lanes = np.asarray(pack_scale(np.array([0]), np.array([10_028_744]), np.array([31]))).view(np.int64)

    def result(sums: Symbols) -> int:
        return int(requantised(sums, Leaf(numbers(lanes)), (-116, -128, 127), "int8")["value"][0])

    with using_bounds():
        bounds = known_bounds()
        assert bounds is not None
        bounds.note(wanted)
        narrowed, other = bounds.narrowed(made), binary("add", made, numbers([1]), "int32")
        assert bounds.narrowed(other) is other
    assert made["value"] == wanted["value"]
    assert result(made) != result(wanted)
    assert result(narrowed) == result(wanted)


def test_squeeze_and_excite_in_a_network_is_certified() -> None:
    """Scales are numbers, which decide what is clipped."""
    model = mobilenet_v3(image=32, depth=1, classes=10)
    data = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)
    machine = extend(Config.preset("pynq_z1"), DEPTHWISE)
    made = compile_network(model, machine, calibration=[{"image": data}], method="minmax", certify=False)
    assert any("dw" in op.extensions for step in made.artifact.plan.steps for op in step.placement.operators)
    assert certify_network(made).holds
