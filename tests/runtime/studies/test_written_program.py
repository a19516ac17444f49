# SPDX-License-Identifier: Apache-2.0
"""Programs that authors write: where they apply, what they cost; wrong ones are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vdla
from vdla import te
from vdla.compiler.extensions import machine_intrinsics
from vdla.compiler.extensions.load import unit_of
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_header import stub
from vdla.isa import Buffer, Emit, Load, MicroOp, Store, isa_of
from vdla.runtime.studies.layer_cycles import layer_cycles
from vdla.runtime.studies.layers import EvaluateError, layer_of
from vdla.runtime.studies.verdict import evaluate

TINY = Config.preset("tiny")
DEPTHWISE = Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py"
Author = Callable[[Any, Config], Any]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)


def declared(program: Author | str | None) -> Callable[[Config], list[vdla.Extension]]:
    """A vector is kept, and pixels are multiplied by it."""

    def declare(config: Config) -> list[vdla.Extension]:
        lanes, pixel = config.block_out, (config.batch, config.block_out)
        kept = vdla.State("kept", rows=1, shape=(lanes,), dtype=config.wgt_dtype)
        vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
        keep = vdla.Extension(
            name="keep",
            doc="Keeps a vector.",
            scopes={"vector": "wgt"},
            updates={kept: te.compute((lanes,), lambda o: vector[o], "row")},
        )
        x, w = te.placeholder(pixel, config.inp_dtype, "x"), te.placeholder((lanes,), config.wgt_dtype, "w")
        output = te.compute(pixel, lambda b, o: te.cast("int32", x[b, o]) * te.cast("int32", w[o]), "acc")
        scopes = {"x": "inp", "w": kept, "acc": "acc"}
        times = vdla.Extension(name="times", doc="Products.", output=output, scopes=scopes, program=program)
        return [times, keep]

    return declare


def program(layer: Any, config: Config, *, factor_of: int = 0, late: int = 1) -> vdla.LayerProgram:
    """A layer of one block of channels; the products of channel c are by weight c + factor_of."""
    layer.require("depthwise_convolution", batch=1, kernel=1, strides={1}, pads=0, channels=config.block_out)
    (data, weight, scale), lanes = layer.inputs, config.block_out
    _, _, rows, columns = data.shape
    builder = vdla.ProgramBuilder(config, "times")
    shape = (rows * columns, 1, lanes)
    builder.input(te.compute(shape, lambda p, b, o: data[b, o, p // columns, p % columns], "pixels"))
    entry = (config.block_in, lanes)
    kept = te.compute(entry, lambda v, o: te.select(v < 1, weight[(o + factor_of) % lanes, 0, 0], 0), "kept")
    builder.input(kept, "weight")
    builder.input(te.compute((1, lanes), lambda v, o: scale[o], "scales"), "weight")
    results = builder.output("results", shape)
    times, keep = (isa_of(config).format_named(name).cls for name in ("times", "keep"))  # type: ignore[union-attr]
    builder.load_micro_ops([MicroOp(), MicroOp(last=1)])
    builder.add([Load(Buffer.WGT)], "kept")
    builder.add([Load(Buffer.SCL)], "scales")
    builder.add([Load(Buffer.INP, x_size=rows * columns)], "pixels", signals=["compute"] * late)
    loops = {"loop0": rows * columns, "src0": 1, "acc0": 1, "uop_begin": 1, "uop_end": 2}
    clip = {"emit": Emit.REQUANT, "clip_lo": -128, "clip_hi": 127}
    builder.add([keep(), times(**loops, **clip)], waits=["load"] * late, signals=["store"])
    builder.add([Store(x_size=rows * columns)], "results", waits=["compute"])
    place = (1, lanes, rows, columns)
    return builder.finished(te.compute(place, lambda n, c, y, x: results[y * columns + x, n, c], "plain"))


def layer(**options: Any) -> Any:
    given = {"batch": 1, "channels": 4, "size": (3, 5), "kernel": 1, "raw": False, **options}
    return layer_of("pointwise", vdla.definitions.depthwise_convolution(**given))


def test_a_written_program_is_measured_and_other_layers_have_a_reason() -> None:
    product = layer_of("product", vdla.definitions.dense(rows=6, in_features=8, out_features=8, raw=False).output)
    first, second, third = evaluate(declared(program), [layer(), layer(kernel=3), product], TINY).layers
    assert first.after.cost is not None and first.before.cost is not None
    assert first.after.cost.mapping == "program of times" and first.after.cost.instructions == 7
    assert first.after.cost.host_cycles == 12 / TINY.axi_bytes  # an entry of weights for one vector
    assert not second.applies and second.after.reason == "kernel must be 1, got 3"
    assert third.after.reason == "operator must be depthwise_convolution, got expression"


def test_the_fastest_of_several_programs_is_taken_and_kept() -> None:
    calls = []

    def several(layer: Any, config: Config) -> list[vdla.LayerProgram]:
        calls.append(layer)
        found = program(layer, config)
        twice = replace(found.program, words=found.program.words[[0, 0, *range(1, len(found.program))]],
                        tensor_of=found.program.tensor_of[[0, 0, *range(1, len(found.program))]],
                        source_of=found.program.source_of[[0, 0, *range(1, len(found.program))]])  # fmt: skip
        return [replace(found, program=twice), found]

    verdicts = [evaluate(declared(several), [layer()], TINY) for _ in range(2)]
    costs = [verdict.layers[0].after.cost for verdict in verdicts]
    assert costs[0] == costs[1] and costs[0] is not None and costs[0].instructions == 7
    machine = vdla.extend(TINY, declared(several))
    found = layer_cycles(layer(), machine)
    assert found == min(costs[0].cycles, verdicts[0].layers[0].before.cost.cycles)  # type: ignore[union-attr]


def test_a_program_that_computes_something_else_is_named() -> None:
    def wrong(layer: Any, config: Config) -> list[vdla.LayerProgram]:
        return [program(layer, config), program(layer, config, factor_of=1)]

    text = (
        r"evaluate: program of times of pointwise \(2 of 2\): result\[0, 0, 0, 0\] must be -?\d+, by the expression of "
        r"the layer, got -?\d+; \d+ of 60 elements differ \(seed 3\)"
    )
    with pytest.raises(EvaluateError, match=f"^{text}$"):
        evaluate(declared(wrong), [layer()], TINY, seed=3)


def test_a_program_that_is_not_safe_is_named() -> None:
    def races(layer: Any, config: Config) -> vdla.LayerProgram:
        return program(layer, config, late=0)

    with pytest.raises(EvaluateError, match=r"^evaluate: program of times of pointwise must be a safe program, got "):
        evaluate(declared(races), [layer()], TINY)


def test_a_unit_with_a_datapath_is_none_for_the_mapper() -> None:
    parts = declared(program)(TINY)
    text = stub(TINY, unit_of("here", parts).plug_ins(TINY))

    def declare(config: Config) -> list[vdla.Extension]:
        times, keep = declared(program)(config)
        return [replace(times, datapath=text), keep]

    machine = vdla.extend(TINY, declare)
    assert machine_intrinsics(machine) == []
    assert layer_cycles(layer(), machine) == layer_cycles(layer(), vdla.extend(TINY, declared(program)))


def test_state_without_a_program_is_the_reason() -> None:
    (found,) = evaluate(declared(None), [layer()], TINY).layers
    reason = "times must have a program, as what it computes depends on private state, got none"
    assert found.after.reason == reason


def faulty(text: str) -> str:
    return f"import vdla\n\n\n{text}\n"


@pytest.mark.parametrize(
    ("given", "content", "text"),
    [
        ("none.py", None, r"program must be a function, or a readable file that ends in \.py, got none\.py$"),
        ("p.py", "x = 1", r"file p\.py must have a function program\(layer, config\), got none$"),
        ("p.py", faulty("def program(layer, config):\n    return 1 / 0"), r"p\.py:5: ZeroDivisionError: division by "),
        (
            "p.py",
            faulty("def program(layer, config):\n    return 1"),
            r"must return a vdla\.LayerProgram, or several, ",
        ),
    ],
)
def test_a_faulty_author_is_refused(
    given: str, content: str | None, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdla.compiler.extensions.extension.caller", lambda: f"{tmp_path}/mine.py:3")
    if content is not None:
        (tmp_path / given).write_text(content)
    with pytest.raises(vdla.Error) as caught:
        evaluate(declared(given), [layer()], TINY)
    assert re.search(text, str(caught.value)), str(caught.value)


def test_tensors_without_arrays_are_refused() -> None:
    """A packed input must be of the layer, a plain result of the program."""

    def own(layer: Any, config: Config) -> vdla.LayerProgram:
        found, data = program(layer, config), te.placeholder((1, 4, 3, 6), "int8", "data")
        pixels = te.compute((15, 1, 4), lambda p, b, o: data[b, o, p // 5, p % 5], "pixels")
        return replace(found, packing=(pixels, *found.packing[1:]))

    def lost(layer: Any, config: Config) -> vdla.LayerProgram:
        other = te.placeholder((15, 1, 4), "int8", "other")
        plain = te.compute((1, 4, 3, 5), lambda n, c, y, x: other[y * 5 + x, n, c], "plain")
        return replace(program(layer, config), unpacking=plain)

    def kept(layer: Any, config: Config) -> vdla.LayerProgram:
        found = program(layer, config)
        cache = vdla.ProgramTensor(name="cache", role="resident", shape=(4,), dtype="int8", layout="", nbytes=4)
        return replace(found, program=replace(found.program, tensors=(*found.program.tensors, cache)))

    texts = {
        kept: "must have no resident tensor, got cache",
        own: "must pack data int8[1, 4, 3, 5] or weight int8[4, 1, 1] or scale int64[4], got data int8[1, 4, 3, 6]",
        lost: "must unpack results int8[15, 1, 4], got other int8[15, 1, 4]",
    }
    for author, text in texts.items():
        with pytest.raises(vdla.Error) as caught:
            evaluate(declared(author), [layer()], TINY)
        assert str(caught.value).partition(": program of times ")[2] == text


def test_what_a_builder_refuses() -> None:
    builder = vdla.ProgramBuilder(TINY, "mine")
    with pytest.raises(vdla.Error, match=r"^program mine: real must have integers, got float32$"):
        builder.input(te.compute((4,), lambda i: te.placeholder((4,), "float32", "f")[i], "real"))
    x, y = (te.placeholder((4,), "int8", name) for name in "xy")
    rule = "a packed input must have elements of one tensor, or choices between them and a constant"
    with pytest.raises(vdla.Error, match=f"^program mine: {rule}, got sum$"):
        builder.input(te.compute((4,), lambda i: x[i] + y[i], "sum"))
    with pytest.raises(vdla.Error, match=r"^program mine: load must push a token of compute, got store$"):
        builder.add([Load(Buffer.INP)], signals=["store"])
    with pytest.raises(vdla.Error, match=r"^program mine: compute must pop a token of load or store, got compute$"):
        builder.add([Load(Buffer.UOP)], waits=["compute"])
    with pytest.raises(vdla.Error, match=r"^program mine: instructions must be at least one, got none$"):
        builder.add([])
    builder.add([Store(x_size=1)], "out")
    results = builder.output("results", (4,))
    with pytest.raises(vdla.Error, match=r"^program mine: tensor must be one of results, got out$"):
        builder.finished(te.compute((4,), lambda i: results[i], "plain"))


@pytest.mark.slow
@pytest.mark.parametrize(("zero", "zero_of_factors"), [(-128, -128), (-127, 127), (0, -5), (127, 0)])
def test_factors_by_channel_lose_any_zero_point(zero: int, zero_of_factors: int) -> None:
    """None, one or two constants of the window; channels that fill a part of a block."""
    zeros = (zero, zero_of_factors)
    made = vdla.definitions.scaling(batch=1, channels=40, size=(7, 5), by_channel=True, zero_points=zeros, raw=False)
    (verdict,) = evaluate(DEPTHWISE, [layer_of("factors", made)], Config.preset("pynq_z1")).layers
    assert verdict.applies and verdict.after.cost is not None
    assert verdict.after.cost.mapping == "program of dw"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "kernel", "strides"), [((30, 90), 3, 1), ((9, 11), 5, 1), ((9, 12), 5, 2), ((8, 9), 7, 1), ((12, 9), 4, 3)]
)
def test_passes_of_any_kernel_and_strips_of_rows_are_right(size: Any, kernel: int, strides: int) -> None:
    """Every program of a layer is run, those by rows where columns fit the line buffer."""
    options: dict[str, Any] = {"size": size, "kernel": kernel, "strides": strides, "pads": kernel // 2, "fill": -3}
    made = vdla.definitions.depthwise_convolution(batch=1, channels=40, raw=False, **options)
    (verdict,) = evaluate(DEPTHWISE, [layer_of("layer", made)], Config.preset("pynq_z1")).layers
    assert verdict.applies
