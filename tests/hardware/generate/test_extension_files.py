# SPDX-License-Identifier: Apache-2.0
"""The files of machines with extensions; plain machines have no others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import lut, narrow, sad
from helpers.staged_datapaths import leaky

import vdla
from vdla.hardware.config import PRESETS, Config, ConfigError
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.extension_package import render_extension_package
from vdla.hardware.generate.formula_text import formula_text
from vdla.hardware.generate.rtl_files import FOLDER, rtl_files
from vdla.hardware.generate.svgen import render
from vdla.hardware.generate.verilog_files import verilog_files
from vdla.hardware.isa import Formula
from vdla.verification.generated_tests.datapath_samples import LATER, distance, fused, paired

TINY = Config.preset("tiny")


def test_a_plain_machine_is_built_from_the_files_as_they_are():
    assert list(machine_files(TINY).values()) == rtl_files()


def test_machines_with_extensions_have_the_modules_of_those_without():
    files = machine_files(vdla.extend(TINY, *LATER))
    package = FOLDER / "vdla_ext_pkg.sv"
    others = {path: path.read_text() for path in rtl_files() if path != package}
    define, undefine = "`define VDLA_EXTENSIONS\n", "`undef VDLA_EXTENSIONS\n"
    defined = [path for path, text in others.items() if files[path.name] == f"{define}{text}{undefine}"]
    assert defined == [path for path, text in others.items() if "VDLA_EXTENSIONS" in text]
    assert all(files[path.name] == path for path in others if path not in defined)
    assert "HasExtensions = 1'b1;" in files[package.name]


def test_machines_without_extensions_have_one_package_of_them():
    committed = (FOLDER / "vdla_ext_pkg.sv").read_text()
    assert "HasExtensions = 1'b0;" in committed
    assert {render_extension_package(config) for config in PRESETS.values()} == {committed}


def test_files_of_extensions_come_after_the_packages_that_they_use():
    names = list(machine_files(vdla.extend(TINY, *LATER)))
    assert names[:6] == ["vdla_ext_pkg.sv", *(f"ext_{declare(TINY).name}.sv" for declare in LATER)]
    assert names[-2:] == ["vdla_ext_steps.sv", "vdla_ext_datapaths.sv"]
    assert (FOLDER / "extension" / names[-2]).is_file()


def test_an_export_has_every_package_before_its_users():
    files = verilog_files(vdla.extend(TINY, *LATER), 40)
    place = {Path(name).stem: number for number, name in enumerate(files)}
    for name, text in files.items():
        for package in set(re.findall(r"\b(\w+_pkg)::", re.sub(r"//.*", "", text))) - {Path(name).stem}:
            assert place[package] < place[Path(name).stem], (package, name)


def test_another_datapath_is_another_build_of_the_same_machine():
    first = vdla.extend(TINY, distance(1))
    text = first.extensions[0].datapath.text
    second = vdla.extend(TINY, lambda config: replace(distance(1)(config), datapath=text + "\n"))
    assert first.fingerprint == second.fingerprint
    assert build_hash(first) != build_hash(second)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (vdla.extend(TINY, sad, distance(1), lut), "extensions must have a datapath, got sad, lut without one"),
        (
            vdla.extend(TINY, lambda config: replace(fused(1)(config), latency="1 + 9 * max(k, 0)")),
            "latency of fused must be at most 255 cycles for its datapath, got 1 + 9 * max(k, 0) of up to 280",
        ),
        (vdla.extend(TINY, leaky(256)), "latency of leaky must be at most 255 cycles for its datapath, got 256"),
        (
            vdla.extend(replace(TINY, block_in=16, block_out=16), paired(8)),
            "buffer wgt must have the 8 entries of a group of an extension, got 4",
        ),
        (
            vdla.extend(
                TINY, lambda config: replace(fused(1)(config), interval="loop0 * loop1 * uop_end * 1000000000")
            ),
            "interval of fused must be less than 2**48 cycles, got loop0 * loop1 * uop_end * 1000000000 "
            "of up to 66585855000000000",
        ),
    ],
    ids=["without", "latency", "latency of a stage", "group", "interval"],
)
def test_what_cannot_be_built_is_refused_in_a_sentence(config, said):
    with pytest.raises(ConfigError) as failure:
        machine_files(config)
    assert str(failure.value) == f"rtl: {said}"


def test_a_machine_without_all_datapaths_has_no_package():
    with pytest.raises(ConfigError, match=r"^rtl: extensions must have a datapath, got narrow without one$"):
        render(vdla.extend(TINY, narrow))


LIMITS = {"a": (0, 31), "b": (-8, 7)}


@pytest.mark.parametrize(
    "text", ["a + b", "a - 3 * b", "b // 3", "b % 5", "a // 4 % 3", "max(a, b, 2) - min(b, 1)", "7"]
)
def test_formulas_in_systemverilog_equal_those_in_python(text):
    pytest.importorskip("pyslang")
    from pyslang import ast, syntax

    rng = np.random.default_rng(3)
    widths = {"a": 5, "b": 4}
    found = formula_text(Formula(text), LIMITS.__getitem__, lambda name: f"{name.upper()}[{widths[name] - 1}:0]")
    for _ in range(8):
        values = {name: int(rng.integers(low, high + 1)) for name, (low, high) in LIMITS.items()}
        bits = {name: value & (1 << widths[name]) - 1 for name, value in values.items()}
        constants = "".join(f"localparam logic [{widths[n] - 1}:0] {n.upper()} = {bits[n]};\n" for n in widths)
        module = f"module m;\n{constants}localparam longint R = 64'({found.text});\nendmodule\n"
        compilation = ast.Compilation()
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(module))
        value = int(compilation.getRoot().topInstances[0].body.find("R").value.value)
        assert value == Formula(text).value(values.__getitem__), values
        assert found.low <= value <= found.high
