# SPDX-License-Identifier: Apache-2.0
"""What a certificate says of a network with a fault: operator, element, term, instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.cli import main
from vdla.compiler.certificates.region_certificate import RegionVerdict
from vdla.hardware.isa import COL, Buffer, Opcode, with_fields
from vdla.hardware.program import Program
from vdla.networks.registry import NETWORKS
from vdla.runtime.executor.errors import ModelError
from vdla.runtime.executor.model import Model
from vdla.runtime.network import certify_model
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.quantise import quantise

Array = np.ndarray[Any, np.dtype[Any]]
Columns = np.ndarray[Any, np.dtype[np.int64]]


@cache
def network() -> Model:
    """A small network with the names of its ONNX file; all its results but one are scratch."""
    resnet8 = NETWORKS["resnet8"]
    model = resnet8.build(seed=0)
    quantised = quantise(model, calibration=[resnet8.inputs(model, seed=n) for n in range(2)], method="minmax").graph
    return compile_network(quantised, "pynq_z1", certify=False)


def changed(
    opcode: Opcode, name: str, amount: int, which: int, some: Callable[[Columns], Any] = lambda columns: True
) -> Model:
    """The network with a field of an instruction changed: of number `which` of those of a kind."""
    (program,) = network().artifact.programs
    columns = program.columns
    at = np.flatnonzero((columns[:, COL["opcode"]] == opcode) & some(columns))[which]
    words = program.words.copy()
    words[[at]] = with_fields(program.config, words[[at]], {name: columns[[at], COL[name]] + amount})
    return with_program(replace(program, words=words))


def with_program(program: Program) -> Model:
    artifact = replace(network().artifact, programs=(program,))
    return Model(artifact, expressions=lambda: network().expressions)


def reason(model: Model) -> str:
    (region,) = vdla.certify(model).regions
    assert region.verdict is RegionVerdict.DIFFERS
    return region.reason


def loads_weights(columns: Columns) -> Any:
    return columns[:, COL["buffer"]] == Buffer.WGT


def goes_on(columns: Columns) -> Any:
    return columns[:, COL["init"]] == 0


def clips(columns: Columns) -> Any:
    return columns[:, COL["clip_hi"]] != 0


def shifted_scale() -> Model:
    """The network with one more bit in the shift of the requantiser of a channel."""
    constants = dict(network().artifact.constants)
    name = next(name for name in constants if name.endswith("s2.scale"))
    lanes = constants[name].copy()
    lanes[..., 0] += 1 << 56
    constants[name] = lanes
    return Model(replace(network().artifact, constants=constants), expressions=lambda: network().expressions)


FAULTS: dict[str, tuple[Callable[[], Model], str]] = {
    "wrong tile of weights": (
        lambda: changed(Opcode.LOAD, "dram", 2, -9, loads_weights),
        "vdla.QConv stage2.conv2: 1,024 of 4,096 results differ, the first is stage2.bn2_quantised[0, 0, 0, 0]; "
        "it differs from the term of stage2.relu1_quantised[0, 32, 0, 0] on; instruction 952 computes it, for line 44 "
        "of its loop nest, block sums; instruction 972 stores it, for line 62 of its loop nest, block output",
    ),
    "terms that are lost": (
        lambda: changed(Opcode.GEMM, "init", 1, 0, goes_on),
        "vdla.QConv stem: 2,304 of 16,384 results differ, the first is stem.relu_quantised[0, 0, 0, 0]; it lacks the "
        "term of image_quantised[0, 0, 0, 0]; instruction 8 computes it, for line 38 of its loop nest, block sums; "
        "instruction 9 stores it, for line 56 of its loop nest, block output",
    ),
    "shift of a requantiser": (
        shifted_scale,
        "vdla.QConv stage0.conv2: 1,024 of 16,384 results differ, the first is stage0.bn2_quantised[0, 0, 0, 0]; it "
        "differs with all operands at their zero points: it is -14, and must be -6; instruction 202 computes it, for "
        "line 44 of its loop nest, block sums; instruction 216 stores it, for line 62 of its loop nest, block output",
    ),
    "store to another place": (
        lambda: changed(Opcode.STORE, "dram", 2, 1),
        "vdla.QConv stem: 2,432 of 16,384 results differ, the first is stem.relu_quantised[0, 0, 0, 16]; instruction "
        "14 stores it at another place, for line 56 of its loop nest, block output",
    ),
    "clip": (
        lambda: changed(Opcode.GEMM, "clip_hi", -1, 1, clips),
        "vdla.QConv stem: 2,304 of 16,384 results differ, the first is stem.relu_quantised[0, 0, 0, 16]; it differs "
        "from the term of image_quantised[0, 0, 1, 17] on; instruction 13 computes it, for line 38 of its loop nest, "
        "block sums; instruction 14 stores it, for line 56 of its loop nest, block output",
    ),
    "sum that does not end": (
        lambda: changed(Opcode.GEMM, "loop0", -1, 1, lambda columns: columns[:, COL["loop0"]] > 1),
        "vdla.QConv stem: 16 of 16,384 results differ, the first is stem.relu_quantised[0, 0, 8, 15]; it differs with "
        "all operands at their zero points: it depends on something else, and must be -128; no instruction computes "
        "it; instruction 9 stores it, for line 56 of its loop nest, block output",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_operator_element_term_instructions_and_lines(fault: str) -> None:
    made, text = FAULTS[fault]
    assert reason(made()) == text


def test_the_lines_are_those_of_the_loop_nest_of_the_operator() -> None:
    (program,), (lines,) = (
        network().artifact.programs,
        [one.lines for one in network().artifact.plan.steps if hasattr(one, "lines")],
    )
    nest = program.source_lines[: lines[0]]
    assert nest[38 - 1].strip().startswith("block sums(")
    assert nest[56 - 1].strip().startswith("block output(")


def test_a_file_tells_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, text = FAULTS["terms that are lost"]
    path = tmp_path / "wrong.vdla"
    made().with_expressions().save(path)
    assert main(["certify", str(path)]) == 1
    assert f"region 1: differs: {text}" in capsys.readouterr().out.splitlines()


def test_a_compilation_tells_the_same() -> None:
    made, text = FAULTS["shift of a requantiser"]
    with pytest.raises(ModelError) as error:
        certify_model.with_certificate(made())
    assert str(error.value) == (
        f"compile {network().name}: the program of region 1 must compute its operators, got one that differs: {text}; "
        "this is a defect of the compiler (certify=False, or --no-certificate, compiles without this proof)"
    )
