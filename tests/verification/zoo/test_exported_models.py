# SPDX-License-Identifier: Apache-2.0
"""Models as exporters write them, on the CPU and the machine, against their reference outputs."""

import collections
import zlib
from dataclasses import replace

import numpy as np
import pytest

from vdla.runtime.network.compile_network import compile_network
from vdla.verification.zoo.archive import MOST_BYTES, Input, Writer, archives, largest_error, read

MODELS = {model.entry.name: model for path in archives() for model in read(path)}
OFTEN = 16  # one model of so many runs each time, the others in the long tests
FAULTS = {"tensorflow_resize_nearest": "Resize to the nearest pixel with half-pixel centres differs from ONNX Runtime"}
ON_MACHINE = (
    "brevitas_qonnx_convnet_8_bits",
    "brevitas_qcdq_residual_8_bits",
)


def names():
    """Every name, marked long where it is none of the sample."""
    for name in MODELS:
        marks = [] if zlib.crc32(name.encode()) % OFTEN == 0 else [pytest.mark.long]
        if name in FAULTS:
            marks.append(pytest.mark.xfail(reason=FAULTS[name], strict=True))
        yield pytest.param(name, marks=marks)


def error(name, target):
    model = MODELS[name]
    compiled = compile_network(model.content, target)
    outputs = compiled.run(model.entry.draw()).outputs
    return largest_error([np.asarray(value) for value in outputs.values()], model.outputs), compiled


@pytest.mark.parametrize("name", list(names()))
def test_a_model_computes_its_reference_on_the_cpu(name):
    assert error(name, "host")[0] <= MODELS[name].entry.tolerance


@pytest.mark.parametrize("name", ON_MACHINE)
def test_a_quantised_model_computes_its_reference_on_the_machine(name):
    difference, compiled = error(name, "pynq_z1")
    assert compiled.artifact.programs
    assert difference <= MODELS[name].entry.tolerance


def test_the_zoo_has_two_hundred_models_of_every_exporter():
    exporters = collections.Counter(name.split("_")[0] for name in MODELS)
    assert len(MODELS) >= 200
    assert min(exporters.values()) >= 10
    assert {"torch", "quantised", "keras", "tensorflow", "jax", "brevitas"} <= set(exporters)


def test_models_are_small_and_name_their_exporter_with_its_version():
    for model in MODELS.values():
        assert len(model.content) <= MOST_BYTES
        assert any(character.isdigit() for character in model.entry.exporter), model.entry.name


def test_an_input_is_drawn_from_its_seed_and_name():
    ids = Input("ids", "int64", (2, 3), high=7)
    assert np.array_equal(ids.draw(1), ids.draw(1))
    assert not np.array_equal(ids.draw(1), replace(ids, name="mask").draw(1))
    assert ids.draw(1).max() < 7


def test_an_archive_keeps_what_is_added(tmp_path):
    model = next(iter(MODELS.values()))
    writer = Writer(tmp_path / "one.zip")
    writer.add(model.entry, model.content, model.outputs)
    writer.write()
    (kept,) = read(writer.path)
    assert (kept.entry, kept.content) == (model.entry, model.content)
    assert largest_error(kept.outputs, model.outputs) == 0


def test_a_model_that_is_too_large_is_refused(tmp_path):
    model = next(iter(MODELS.values()))
    rule = f"{model.entry.name}: model must have at most 100000 bytes, got 100001"
    with pytest.raises(ValueError, match=rule):
        Writer(tmp_path / "one.zip").add(model.entry, bytes(100_001), ())


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([np.zeros(3, np.float32)], []),
        ([np.zeros(3, np.float32)], [np.zeros((3, 1), np.float32)]),
        ([np.zeros(3, np.float64)], [np.zeros(3, np.float32)]),
        ([np.zeros(3, np.int64)], [np.ones(3, np.int64)]),
        ([np.zeros(3, np.float32)], [np.full(3, np.nan, np.float32)]),
    ],
    ids=["count", "shape", "type", "integers", "nan"],
)
def test_other_outputs_are_infinitely_wrong(output, expected):
    assert largest_error(output, expected) == np.inf


def test_the_error_is_relative_to_the_greatest_value():
    expected = np.array([0.0, -4.0], np.float32)
    assert largest_error([expected + np.float32(1)], [expected]) == 0.25
