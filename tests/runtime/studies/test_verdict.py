# SPDX-License-Identifier: Apache-2.0
"""The verdict on extensions: baselines, reasons, what is kept, accuracy, layers of networks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.stateful import negated
from onnx import TensorProto, helper

import vdla
from vdla import definitions, te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.hardware.config import Config
from vdla.runtime.studies.layer_accuracy import accuracy_of
from vdla.runtime.studies.layers import (
    EvaluatedLayer,
    EvaluateError,
    OperandTypes,
    given_layers,
    layer_of,
    layers_named,
    least_cycles,
)
from vdla.runtime.studies.network import kept_layers, layers_of
from vdla.runtime.studies.report import report_of
from vdla.runtime.studies.verdict import evaluate
from vdla.runtime.studies.written_program import random_arrays
from vdla.support.errors import Error

TINY = Config.preset("tiny")
INT8 = OperandTypes("int8", "int8")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, so that every outcome is computed here."""
    for module in ("layer_cycles", "network"):
        monkeypatch.setattr(f"vdla.runtime.studies.{module}.user_cache", lambda kind: tmp_path / kind)
    return tmp_path / "evaluate"


def operands(config: Config) -> tuple[te.Tensor, te.Tensor, te.ReduceAxis]:
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    return inp, wgt, te.reduce_axis(config.block_in, "i")


def wide(value: te.Value) -> te.Value:
    return te.cast("int32", value)


def declare_differences(config: Config) -> vdla.Extension:
    inp, wgt, i = operands(config)
    shape = (config.batch, config.block_out)
    output = te.compute(shape, lambda b, o: te.sum(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), axis=i), "acc")
    return vdla.Extension(
        name="differences", doc="Differences.", output=output, scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"}
    )


def declare_slow_product(config: Config) -> vdla.Extension:
    inp, wgt, i = operands(config)
    shape = (config.batch, config.block_out)
    output = te.compute(shape, lambda b, o: te.sum(wide(inp[b, i]) * wide(wgt[o, i]), axis=i), "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="slow", doc="As GEMM, but slower.", output=output, scopes=scopes, interval=16)


def distances(rows: int = 6, columns: int = 8, terms: int = 8) -> te.Tensor:
    a, b = te.placeholder((rows, terms), "int8", "a"), te.placeholder((columns, terms), "int8", "b")
    k = te.reduce_axis(terms, "k")
    return te.compute((rows, columns), lambda n, m: te.sum(te.abs(wide(a[n, k]) - wide(b[m, k])), axis=k), "distance")


def small_dense() -> EvaluatedLayer:
    return layer_of("dense", vdla.definitions.dense(rows=6, in_features=8, out_features=8).output)


def test_a_layer_that_only_the_extension_computes_has_no_baseline() -> None:
    verdict = evaluate(declare_differences, [layer_of("distance", distances()), small_dense()], TINY)
    distance, dense = verdict.layers
    assert distance.applies and distance.helps and distance.speedup is None
    assert distance.before.reason.startswith("gemm: the value must have the form ")
    assert distance.steps == 6 * 8 * 8
    assert not dense.applies
    assert dense.after.reason.startswith("the value must have the form abs(int32(inp[vb, vi]) - int32(wgt[vo, vi]))")
    assert [layer.name for layer in verdict.compared] == ["dense"]
    assert verdict.speedup == 1


def test_a_layer_keeps_its_plain_program_where_the_extension_takes_longer() -> None:
    (layer,) = evaluate(declare_slow_product, [small_dense()], TINY).layers
    assert layer.applies and not layer.helps
    assert layer.before.cost is not None and layer.after.cost is not None
    assert layer.after.cost.cycles > layer.before.cost.cycles
    assert layer.chosen is layer.before.cost and layer.speedup == 1


def test_trials_tune_both_machines_and_are_never_worse() -> None:
    first = evaluate(declare_slow_product, [small_dense()], TINY).layers[0]
    tuned = evaluate(declare_slow_product, [small_dense()], TINY, trials=8).layers[0]
    for before, after in ((first.before.cost, tuned.before.cost), (first.after.cost, tuned.after.cost)):
        assert before is not None and after is not None
        assert after.total <= before.total
    assert tuned.after.cost is not None and tuned.after.cost.mapping.startswith("slow: ")


def test_what_is_kept_is_not_measured_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = evaluate(declare_slow_product, [small_dense()], TINY)
    assert len(list(cache.iterdir())) == 2

    def fails(job: object) -> Any:
        raise AssertionError(job)

    monkeypatch.setattr("vdla.runtime.studies.verdict.measured", fails)
    assert evaluate(declare_slow_product, [small_dense()], TINY) == verdict
    next(cache.iterdir()).write_text("{")
    with pytest.raises(AssertionError):
        evaluate(declare_slow_product, [small_dense()], TINY)


def test_padding_is_no_work() -> None:
    define = vdla.definitions.convolution
    conv = define(batch=1, in_channels=4, out_channels=4, size=(3, 3), kernel=3, pads=1, raw=False)
    (layer,) = evaluate(declare_slow_product, [layer_of("conv", conv.output)], TINY).layers
    assert layer.steps == 4 * 4 * 7 * 7  # of 9 x 9 products of places and taps, 7 x 7 are inside


def test_the_report_has_every_figure() -> None:
    document = json.loads(json.dumps(report_of(evaluate(declare_slow_product, [small_dense()], TINY))))
    (layer,) = document["layers"]
    assert layer["before"]["bound_by"] in ("compute", "reads", "writes")
    before = layer["before"]
    assert before["bound_cycles"] <= before["cycles"]
    assert before["utilisation"] == pytest.approx(6 * 8 * 8 / (TINY.macs_per_cycle * before["cycles"]))
    assert document["network"]["after"]["cycles"] == document["network"]["before"]["cycles"] == before["cycles"]
    assert document["extensions"][0].startswith("slow#")


def test_a_layer_can_have_a_baseline_in_another_formulation() -> None:
    a, b = te.placeholder((6, 8), "int8", "a"), te.placeholder((8, 8), "int8", "b")
    k = te.reduce_axis(8, "k")
    baseline = te.compute((6, 8), lambda n, m: te.sum(wide(a[n, k]) * wide(b[m, k]), axis=k), "products")
    (layer,) = evaluate(declare_differences, [layer_of("distance", distances(), baseline)], TINY).layers
    assert layer.before.cost is not None and layer.after.cost is not None and layer.speedup is not None
    arrays = random_arrays(distances(), seed=0)
    x, y = (arrays[name].astype(int) for name in "ab")
    exact = np.abs(x @ y.T - np.abs(x[:, None] - y[None]).sum(2)).max()
    assert layer.baseline_error == exact  # another result, which the verdict says


def test_a_baseline_of_other_inputs_is_not_compared() -> None:
    """Such as eight-bit operands, for bytes of which a step reads the bits."""
    baseline = vdla.definitions.dense(rows=8, in_features=64, out_features=6).output
    (layer,) = evaluate(declare_differences, [layer_of("distance", distances(), baseline)], TINY).layers
    assert layer.before.cost is not None and layer.speedup is not None
    assert (layer.baseline_error, layer.baseline_steps) == (None, 6 * 8 * 64)
    with pytest.raises(
        EvaluateError, match=r"result of the baseline of mine must be of 48 elements, got of 56 elements"
    ):
        layer_of("mine", distances(), vdla.definitions.dense(rows=7, in_features=64, out_features=8).output)


@pytest.mark.parametrize(
    ("terms", "columns", "text"),
    [
        (8, 4, r"result of the baseline of mine must be int32\[6, 8\], got int32\[6, 4\]"),
        (4, 8, r"input a of the baseline of mine must be \[6, 8\], got \[6, 4\]; give another input another name"),
    ],
)
def test_a_baseline_of_another_shape_is_refused(terms: int, columns: int, text: str) -> None:
    with pytest.raises(EvaluateError, match=f"^evaluate: {text}$"):
        layer_of("mine", distances(), distances(columns=columns, terms=terms))


def test_the_least_cycles_are_those_of_the_busier_channel() -> None:
    layer = vdla.definitions.dense(rows=6, in_features=8, out_features=8)
    assert least_cycles(layer, TINY) == max(6 * 8 + 8 * 8, 6 * 8 * 4) / TINY.axi_bytes  # results of 32 bits


def test_no_layers_are_refused() -> None:
    with pytest.raises(EvaluateError, match=r"^evaluate: layers must be at least one, got none$"):
        evaluate(declare_differences, [], TINY)


def declare_table(config: Config) -> vdla.EmitStage | list[Any]:
    lanes, values = config.block_out, 1 << config.out_bits
    table = vdla.State("table", rows=values // lanes, shape=(lanes,), dtype=config.out_dtype)
    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    row = te.compute((lanes,), lambda o: vector[o], "row")
    load = vdla.Extension(name="fill", doc="A row.", scopes={"vector": "wgt"}, updates={table: row}, interval=lanes)
    x = te.placeholder((config.batch, lanes), config.out_dtype, "x")
    rows = te.placeholder((values // lanes, lanes), config.out_dtype, "rows")

    def value(b: te.Value, o: te.Value) -> te.Value:
        return rows[(wide(x[b, o]) + values // 2) // lanes, (wide(x[b, o]) + values // 2) % lanes]

    scopes = {"x": "out", "rows": table, "y": "out"}
    return [vdla.EmitStage(name="look", doc="A table.", output=te.compute(x.shape, value, "y"), scopes=scopes), load]


def looked_up(values: int = 256, sums: te.Tensor | None = None) -> EvaluatedLayer:
    """Results of a product, or others, as elements of a table."""
    if sums is None:
        result = vdla.definitions.dense(rows=6, in_features=8, out_features=8, raw=False).output
    else:
        scale = te.placeholder((sums.shape[1],), "int64", "scale")
        result = te.compute(sums.shape, lambda n, o: requantisation(sums[n, o], scale[o], 0, -128, 127, "int8"), "q")
    table = te.placeholder((values,), "int8", "table")
    return layer_of("looked", te.compute(result.shape, lambda n, o: table[wide(result[n, o]) + 128], "looked"))


def pooled() -> EvaluatedLayer:
    return layer_of("pooled", vdla.definitions.pooling(batch=1, channels=4, size=(4, 4), kernel=2, kind="max").output)


def test_a_stage_is_judged_by_the_layers_that_go_through_it() -> None:
    looked, dense = evaluate(declare_table, [looked_up(), small_dense()], TINY).layers
    assert looked.steps == 6 * 8 * 8
    assert looked.applies and looked.before.reason.endswith("must have a stage on the way out, got none")
    assert dense.after.reason == "results must be looked up in a table to go through stage look, got others"


def test_a_stage_of_arithmetic_is_judged_by_the_layers_that_it_computes() -> None:
    dense = vdla.definitions.dense(rows=6, in_features=8, out_features=8, raw=False).output
    layer = te.compute(dense.shape, lambda n, o: 0 - dense[n, o], "negative")
    (outcome,) = evaluate(negated, [layer], TINY).layers
    assert outcome.applies and outcome.steps == 6 * 8 * 8 and outcome.before.cost is None


def differences_beside_a_stage(config: Config) -> list[Any]:
    return [negated(config), declare_differences(config)]


FORM = "the value must have the form abs(int32(inp[vb, vi]) - int32(wgt[vo, vi]))"
OTHERS = "results must be computed as stage negated does, got others"
NO_TABLE = "results must be looked up in a table to go through stage look, got others"
NO_PRODUCT = "gemm: the value must have the form int32(inp[vb, vi]) * int32(wgt[vo, vi]), got abs"
UNUSED = [
    (negated, small_dense, OTHERS),
    (negated, looked_up, OTHERS),
    (differences_beside_a_stage, small_dense, f"{OTHERS}; {FORM}, got "),
    (declare_table, small_dense, NO_TABLE),
    (declare_table, lambda: layer_of("distance", distances()), NO_TABLE),
    (declare_table, lambda: looked_up(512), "table must be an input of 256 elements of int8, got int8[512]"),
    (declare_table, lambda: looked_up(sums=distances()), NO_PRODUCT),
    (declare_differences, pooled, "the stage must accumulate by sum from 0, got max"),
]


@pytest.mark.parametrize(("declare", "layer", "reason"), UNUSED)
def test_a_layer_that_does_not_use_an_extension_has_the_whole_reason(
    declare: Any, layer: Callable[[], EvaluatedLayer], reason: str
) -> None:
    verdict = evaluate(declare, [layer()], TINY)
    assert verdict.layers[0].after.reason.startswith(reason)
    assert verdict.steps_after >= verdict.steps_before == TINY.macs_per_cycle


# --- accuracy -------------------------------------------------------------------------------------


def test_the_error_of_narrower_weights_is_that_of_their_step() -> None:
    """A symmetric quantiser of step s errs by s / sqrt(12)."""
    found = accuracy_of(256, INT8, OperandTypes("int8", "int4"))
    largest = 2.8  # of 256 normal values, on average
    expected = largest / 7 / np.sqrt(12)
    assert found.after == pytest.approx(expected, rel=0.1)
    assert found.before < found.after / 8
    equal = accuracy_of(256, INT8, INT8)
    assert equal.after == equal.before


# --- layers ---------------------------------------------------------------------------------------


def test_layers_by_name_and_range() -> None:
    names = [layer.name for layer in layers_named(["c2", "D1-D3", "C2"])]
    assert names == ["C2", "D1", "D2", "D3"]
    assert layers_named(["C5"])[0].expression(OperandTypes("int8", "int4")).shape == (1, 128, 28, 28)


FILE = """from vdla import definitions

def layer(): return definitions.dense(rows=4, in_features=8, out_features=4)
def pair(): return layer(), layer().output
def three(): return 3
"""


def test_layers_of_a_file_and_pairs(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(FILE, encoding="utf-8")
    layer = definitions.dense(rows=4, in_features=8, out_features=4)
    given = given_layers([f"{path}:layer", f"{path}:pair", (layer, layer.output), (layer.output, layer), "C2"])
    assert [item.name for item in given] == ["layer", "pair", layer.output.name, "dense", "C2"]
    assert [item.baseline is not None for item in given] == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("own.py", "evaluate: FILE.py must be followed by the name of a function, as own.py:NAME, got own.py"),
        ("none.py:f", "none.py: file must exist, got none"),
        ("own.py:other", "own.py: other must be a function, got none"),
        ("own.py:FILE", "own.py: FILE must be a function, got none"),
        (
            "own.py:three",
            "own.py:three: the function must return a tensor, a definition, or two of them, the baseline first, got 3",
        ),
        (
            (1, 2),
            "evaluate: a layer must be a name, FILE.py:NAME, a definition, a tensor, or two of these, "
            "the baseline first, got (1, 2)",
        ),
    ],
)
def test_what_is_no_layer_is_refused(
    given: object, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(FILE, encoding="utf-8")
    with pytest.raises(Error, match=f"^{re.escape(expected)}$"):
        given_layers([given])  # type: ignore[list-item]


@pytest.mark.parametrize("word", ["C2-D3", "C9-C2", "C1-C99"])
def test_a_range_without_layers_is_refused(word: str) -> None:
    text = f"^evaluate: a range of layers must be as C1-C12, D1-D9 or CT1-CT3, got {word}$"
    with pytest.raises(EvaluateError, match=text):
        layers_named([word])


def network(*nodes: Any, weights: dict[str, tuple[int, ...]], result: tuple[int, ...]) -> bytes:
    def info(name: str, shape: tuple[int, ...]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    constants = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, np.ones(shape, np.float32).ravel())
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(nodes, "net", [info("x", (1, 4, 6, 6))], [info("y", result)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    content: bytes = model.SerializeToString()
    return content


def test_the_layers_of_a_network_are_each_distinct_one_once() -> None:
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    model = network(
        helper.make_node("Conv", ["x", "w"], ["a"], **conv),
        helper.make_node("Conv", ["a", "w"], ["b"], **conv),
        helper.make_node("Conv", ["b", "d"], ["c"], group=4, **conv),
        helper.make_node("ConvTranspose", ["c", "t"], ["e"], strides=[2, 2]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
        weights={"w": (4, 4, 3, 3), "d": (4, 1, 3, 3), "t": (4, 2, 2, 2), "m": (288, 5)},
        result=(1, 5),
    )
    found = [(layer.name, layer.count, layer.expression(INT8).shape) for layer in layers_of(model)]
    assert found == [
        ("conv 3x3 4>4 6x6", 2, (1, 4, 6, 6)),
        ("depthwise 3x3 4 6x6", 1, (1, 4, 6, 6)),
        ("transposed 2x2/2 4>2 6x6", 1, (1, 2, 12, 12)),
        ("dense 288>5 1", 1, (1, 5)),
    ]


def test_layers_of_a_network_are_kept(cache: Path) -> None:
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    model = helper.make_node("Conv", ["x", "w"], ["y"], **conv)
    content = network(model, weights={"w": (4, 4, 3, 3)}, result=(1, 4, 6, 6))
    calls = []

    def read() -> Any:
        calls.append(content)
        return content

    shapes = [kept_layers(content, read)[0].expression(INT8).shape for _ in range(2)]
    assert shapes == [(1, 4, 6, 6)] * 2 and len(calls) == 1
    (kept,) = cache.glob("layers-*.json")
    kept.write_text('[{"name": "x"}]')
    assert kept_layers(content, read)[0].name == "conv 3x3 4>4 6x6" and len(calls) == 2
    kept.write_text(kept.read_text().replace('"convolution"', '"system"'))
    with pytest.raises(EvaluateError, match=r"^evaluate: definition must be one of convolution, .*, got system$"):
        kept_layers(content, read)[0].expression(INT8)


def test_a_network_without_layers_is_refused() -> None:
    model = network(helper.make_node("Relu", ["x"], ["y"]), weights={}, result=(1, 4, 6, 6))
    text = "^evaluate: the model must have a convolution or product of known extents, got none$"
    with pytest.raises(EvaluateError, match=text):
        layers_of(model)


def xored(name: str) -> te.Tensor:
    a, k = te.placeholder((4, 8), "int8", "a"), te.reduce_axis(8, "k")
    reducer = te.reducer(lambda x, y: x ^ y, 0, "xor")
    sums = te.compute((4,), lambda n: reducer(te.cast("int32", a[n, k]), axis=k), name)
    return te.compute((4,), lambda n: sums[n] + 1, "more")


def test_a_reducer_of_ones_own_is_refused_before_other_processes_need_it() -> None:
    known = "te.sum, te.max, te.min, te.argmax, te.argmin"
    with pytest.raises(EvaluateError) as error:
        layer_of("mine", xored("parity"))
    rule = f"the reducer of parity must be one of {known}, as those of instructions are"
    assert str(error.value) == f"evaluate: mine: {rule}, got xor"
