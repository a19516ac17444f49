# SPDX-License-Identifier: Apache-2.0
"""Exported models run as ONNX Runtime ran them when they were exported."""

import collections

import numpy as np
import onnx
import pytest
from helpers.seeds import lengths, sample

import vdla
from vdla.verification.zoo.archive import (
    MOST_BYTES,
    Entry,
    Input,
    Writer,
    archives,
    largest_error,
    onnxruntime_runs,
    read,
    without_traces,
)

MODELS = {model.entry.name: model for path in archives() for model in read(path)}
USUAL = 7  # one in so many in the short tests


ON_MACHINE = ("brevitas_qonnx_convnet_8_bits", "brevitas_qcdq_residual_8_bits")


def exported(name):
    """What an exporter writes: each operator of a model, with the exporter."""
    model = onnx.load_from_string(MODELS[name].content)
    exporter = name.split("_")[0]
    graphs, functions = [model.graph], [function.node for function in model.functions]
    while graphs:
        functions.append(graphs.pop().node)
        graphs += [part.g for node in functions[-1] for part in node.attribute if part.HasField("g")]
    return {(exporter, node.domain, node.op_type) for nodes in functions for node in nodes}


def cases():
    """Some in the short tests; in the long ones all that an exporter writes, and a sample."""
    usual, chosen = set(list(MODELS)[::USUAL]), set(sample(MODELS, exported))
    for name in MODELS:
        if name in usual | chosen:
            yield pytest.param(name, marks=lengths(name in usual, name in chosen))


def test_every_operator_of_an_exporter_is_tried():
    tried = {case.values[0] for case in cases() if pytest.mark.short not in case.marks}
    assert set().union(*map(exported, tried)) == set().union(*map(exported, MODELS))
    assert len(tried) >= len(MODELS) / 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(cases()))
def test_a_model_runs_as_its_exporter_means_it(name):
    model = MODELS[name]
    outputs = vdla.compile(model.content, "host").run(model.entry.draw()).outputs
    assert largest_error([np.asarray(value) for value in outputs.values()], model.outputs) <= model.entry.tolerance


@pytest.mark.parametrize("name", ON_MACHINE)
def test_a_quantised_model_runs_on_the_machine(name):
    model = MODELS[name]
    compiled = vdla.compile(model.content, "pynq_z1")
    outputs = compiled.run(model.entry.draw()).outputs
    assert compiled.artifact.programs
    assert largest_error([np.asarray(value) for value in outputs.values()], model.outputs) <= model.entry.tolerance


def test_every_model_says_who_wrote_it():
    exporters = collections.Counter(name.split("_")[0] for name in MODELS)
    assert len(MODELS) >= 200
    assert {"torch", "quantised", "keras", "tensorflow", "jax", "brevitas", "paddle"} <= set(exporters)
    assert all(model.entry.exporter and len(model.content) <= MOST_BYTES for model in MODELS.values())


def test_the_archives_are_small():
    assert [path.name for path in archives() if path.stat().st_size > 1_000_000] == []


def test_a_model_that_is_not_exported_is_reported_and_the_next_follows(tmp_path):
    writer = Writer(tmp_path / "x.zip")
    for name in ("one", "two", "three"):
        with writer.attempt(name):
            content = {"one": b"1", "three": b"3"}[name]
            writer.add(Entry(name, "network", "by hand", 17, ()), content, [])
    assert (
        writer.write() == f"x.zip: 2 models, {writer.path.stat().st_size:,} bytes\n  not exported: two: KeyError: 'two'"
    )
    assert [model.entry.name for model in read(writer.path)] == ["one", "three"]


def test_no_paths_or_texts_of_exporters_stay_in_a_model():
    def traced(holder):
        holder.doc_string = "a stack"
        onnx.helper.set_model_props(holder, {"path": "a.py"})
        return holder

    node = traced(onnx.helper.make_node("Relu", ["x"], ["y"], domain=""))
    kind = onnx.TensorProto.FLOAT
    values = [traced(onnx.helper.make_tensor_value_info(name, kind, [2])) for name in "xyz"]
    graph = traced(onnx.helper.make_graph([node], "g", values[:1], values[1:2], value_info=values[2:]))
    function = onnx.helper.make_function("own", "F", ["x"], ["y"], [node], [onnx.helper.make_opsetid("", 21)])
    model = traced(onnx.helper.make_model(graph, functions=[traced(function)]))
    content = without_traces(model)
    assert not any(text in content for text in (b"a stack", b"a.py"))
    samples = [{"x": np.float32(x), "removed": np.float32(0)} for x in ([-1, 2], [3, -4])]
    assert [output.tolist() for (output,) in onnxruntime_runs(content, samples)] == [[0, 2], [3, 0]]


def test_an_archive_is_read_as_it_was_written(tmp_path):
    entry = Entry("one", "table", "by hand", 17, (Input("x", "float32", (2, 3)), Input("n", "int64", (2,), 5)))
    strings = np.array(["a", "bc"], dtype=object)
    for name in ("first.zip", "second.zip"):
        writer = Writer(tmp_path / name)
        writer.add(entry, b"model", [np.float32([1, np.nan]), strings])
        writer.write()
    (model,) = read(tmp_path / "first.zip")
    assert model.entry == entry and model.content == b"model"
    assert largest_error([np.float32([1, np.nan]), strings], model.outputs) == 0
    assert (tmp_path / "first.zip").read_bytes() == (tmp_path / "second.zip").read_bytes()


def test_a_model_that_is_too_large_is_refused(tmp_path):
    entry = Entry("large", "network", "by hand", 17, ())
    with pytest.raises(ValueError, match=r"large: model must have at most 100000 bytes, got 100001"):
        Writer(tmp_path / "x.zip").add(entry, bytes(MOST_BYTES + 1), [])


@pytest.mark.parametrize(
    "output",
    [np.float32([1, 3]), np.float64([1, 2]), np.float32([[1, 2]]), np.float32([1, np.nan]), np.float32([np.inf, 2])],
)
def test_differences_are_errors(output):
    assert largest_error([output], [np.float32([1, 2])]) >= 0.5


def test_integers_strings_and_counts_of_outputs_must_be_equal():
    assert largest_error([np.int64([1])], [np.int64([2])]) == np.inf
    assert largest_error([np.array(["a"], dtype=object)], [np.array(["b"])]) == np.inf
    assert largest_error([], [np.int64([2])]) == np.inf
    assert largest_error([np.float32([1.5, 2])], [np.float32([1, 2])]) == 0.25
