# SPDX-License-Identifier: Apache-2.0
"""Programs that authors of extensions write, as layers of networks, against the plain machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.extensions import ExtensionError, extend
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.networks.mobilenet import mobilenet_v1, mobilenet_v3
from vdla.runtime.executor.model import Model
from vdla.runtime.network import plug_in_choice
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.plug_in_choice import PlugInChoice

EXAMPLES = Path(__file__).parents[3] / "examples"
DEPTHWISE = Path(__file__).parents[3] / "examples" / "depthwise" / "depthwise.py"
DATA = np.random.default_rng(0).standard_normal((3, 1, 3, 48, 48)).astype(np.float32)


def compiled(config: Config, batch: int = 1, **options: Any) -> Any:
    """A network whose depthwise layers have blocks of channels, for a machine."""
    model = mobilenet_v1(batch=batch, image=48, width=0.5, depth=4, classes=10)
    data = np.repeat(DATA, batch, axis=1)[:, :batch]
    return compile_network(model, config, calibration=[{"image": data[0]}], method="minmax", **options)


def extensions_of(model: Any) -> list[str]:
    """The operators that extensions run, by name."""
    placed = [op for step in model.artifact.plan.steps for op in step.placement.operators]
    return [op.name for op in placed if op.extensions]


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(("preset", "batch"), [("pynq_z1", 1), ("ultra96", 1)])
def test_layers_are_run_by_an_extension_in_fewer_cycles(preset: str, batch: int, tmp_path: Path) -> None:
    plain = Config.preset(preset)
    machine = extend(plain, DEPTHWISE)
    before, after = compiled(plain, batch), compiled(machine, batch)
    assert extensions_of(before) == []
    assert len(extensions_of(after)) >= 2 and all(
        "relu1" in name or "depthwise" in name for name in extensions_of(after)
    )
    cycles = [sum(step.placement.cycles or 0 for step in model.artifact.plan.steps) for model in (before, after)]
    assert cycles[1] < cycles[0]
    after.save(tmp_path / "after.vdla")
    with before, after, Model.load(tmp_path / "after.vdla") as loaded:
        for data in DATA:
            image = np.repeat(data, batch, axis=0)
            wanted = before.run({"image": image}).outputs["logits"]
            for model in (after, loaded):
                np.testing.assert_array_equal(model.run({"image": image}).outputs["logits"], wanted)


@pytest.mark.slow
def test_results_of_an_extension_are_looked_up_on_their_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of 3x3 and 5x5, channels that fill no whole block, hard-swish behind the layer."""
    monkeypatch.setattr(PlugInChoice, "_require_faster", lambda *_: None)
    model = mobilenet_v3(image=32, depth=8, classes=10)
    data = np.random.default_rng(0).standard_normal((2, 1, 3, 32, 32)).astype(np.float32)
    plain = Config.preset("pynq_z1")
    machines = plain, extend(plain, EXAMPLES / "look_up_table" / "lut.py", DEPTHWISE)
    outputs = []
    for machine in machines:
        made = compile_network(model, machine, calibration=[{"image": data[0]}], method="minmax")
        with made:
            outputs.append([made.run({"image": image}).outputs["logits"] for image in data])
    np.testing.assert_array_equal(*outputs)
    assert {f"block{index}.depthwise" for index in range(8)} <= set(extensions_of(made))
    assert {f"block{index}.excite" for index in range(3, 8)} <= set(extensions_of(made))
    assert len(made.artifact.programs) == 1


def changed(folder: Path, old: str, new: str) -> Path:
    """The depthwise extension with another text in the file that writes its programs."""
    text = (DEPTHWISE.parent / "layer.py").read_text()
    assert old in text
    (folder / "layer.py").write_text(text.replace(old, new))
    for name in ("depthwise.py", "depthwise.sv"):
        (folder / name).write_text((DEPTHWISE.parent / name).read_text())
    return folder / "depthwise.py"


@pytest.mark.slow
def test_a_program_that_computes_something_else_is_refused(tmp_path: Path) -> None:
    source = changed(tmp_path, "run(0, 1, src, **self.edge)", "run(0, 1, src)")  # the rows above an image
    rule = (
        r"program of dw for .*: result\[.*\] must be -?[0-9]+, by the definition of vdla.QConv, got .* elements differ"
    )
    with pytest.raises(ExtensionError, match=rule):
        compiled(extend(Config.preset("pynq_z1"), source))


@pytest.mark.slow
def test_a_program_that_no_chain_can_place_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The template runs the layer; the reason is in the explanation."""

    def refused(program: Program) -> None:
        raise LoweringError(f"{program.name}: instruction 7 (DW): acc must index either a buffer or rows, got both")

    monkeypatch.setattr(plug_in_choice, "lift", refused)
    model = compiled(extend(Config.preset("pynq_z1"), DEPTHWISE))
    assert extensions_of(model) == []
    placed = [op for step in model.artifact.plan.steps for op in step.placement.operators]
    reasons = {op.no_extension for op in placed if "relu1" in op.name or "depthwise" in op.name}
    rule = "have a program that can be placed among others, got "
    assert any(rule in reason and "instruction 7 (DW): acc must index" in reason for reason in reasons), reasons


def test_the_reasons_of_several_extensions_have_their_names() -> None:
    def squares(config: Config) -> vdla.Extension:
        x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
        i = te.reduce_axis(config.block_in, "i")

        def total(b: te.Value, o: te.Value) -> te.Value:
            return te.sum(te.cast("int32", x[b, i]) * te.cast("int32", x[b, i]), axis=i)

        output = te.compute((config.batch, config.block_out), total, "acc")
        return vdla.Extension(name="squares", doc="Adds squares.", output=output, scopes={"x": "inp", "acc": "acc"})

    model = compiled(extend(Config.preset("pynq_z1"), DEPTHWISE, squares))
    placed = [op for step in model.artifact.plan.steps for op in step.placement.operators]
    (reason,) = {op.no_extension for op in placed if op.name == "block1.pointwise"}
    first, second = reason.split(", or ")
    assert first == ("fit a program of an extension; operator must be depthwise_convolution, got convolution (for dw)")
    assert second.startswith("fit a program of an extension; the value must have the form ")
    assert second.endswith(" (for squares)")


@pytest.mark.slow
def test_an_unsafe_program_is_refused(tmp_path: Path) -> None:
    source = changed(tmp_path, "self.clear(loop0=columns, acc0=1), ", "")
    with pytest.raises(ExtensionError, match=r"must be a safe program, got .* must be written before it is"):
        compiled(extend(Config.preset("pynq_z1"), source))


@pytest.mark.slow
@pytest.mark.parametrize("free", [False, True], ids=["paid", "free"])
def test_pixels_in_a_layout_of_the_host_are_gathered(
    free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the way by the host counts, no layer takes it."""
    if free:
        monkeypatch.setattr(PlugInChoice, "_packing_seconds", lambda *_: 0.0)
    by_host = changed(tmp_path, "product((True, False), SHARES", "product((True,), SHARES")
    plain = Config.preset("pynq_z1")
    place = {f"block{index}.depthwise": "vdla" for index in range(4)} if free else {}
    before, after = compiled(plain), compiled(extend(plain, by_host), place=place)
    placed = {op.name: op for step in after.artifact.plan.steps for op in step.placement.operators}
    assert bool(extensions_of(after)) == free
    assert free or "to pack activations" in placed["block1.depthwise"].no_extension
    with before, after:
        outputs = [model.run({"image": DATA[0]}).outputs["logits"] for model in (before, after)]
    np.testing.assert_array_equal(*outputs)
