# SPDX-License-Identifier: Apache-2.0
"""docs/assembly.md: its programs and commands run, its tables agree with the assembler."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest

from vdla.cli import main
from vdla.hardware.asm import assemble, disassemble
from vdla.hardware.asm.assembler import DIRECTIVES, TENSOR_KEYS
from vdla.hardware.isa import CLASSES, Opcode, Unit, decode
from vdla.hardware.program import ROLES
from vdla.hardware.program.tensor import CONSTANT_BITS, ELEMENT_BITS, UOP
from vdla.simulator.verify import verify

WRONG = ".config preset=tiny\ngemm emit=raw loop1=many\n"


@pytest.fixture
def page(root):
    return (root / "docs" / "assembly.md").read_text(encoding="utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def rows(page, head):
    """The rows of the table with these column names."""
    lines = page.split(f"| {head} |", 1)[1].splitlines()[2:]
    table = lines[: next(index for index, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_programs_of_the_page_round_trip(page):
    relu, beyond = (assemble(text) for text in blocks(page, "asm"))
    assert verify(relu).ok
    assert not verify(beyond).ok
    assert assemble(disassemble(relu)).to_bytes() == relu.to_bytes()


def test_the_commands_print_what_the_page_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = dict(zip(("relu.s", "beyond.s"), blocks(page, "asm"), strict=True)) | {"wrong.s": WRONG}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for block in blocks(page, "console"):
        command, _, expected = block.partition("\n")
        main(shlex.split(command)[2:])
        printed = capsys.readouterr()
        assert printed.out + printed.err == expected


def test_the_tables_name_every_directive_and_key(page):
    assert {row[0].split()[0].strip("`") for row in rows(page, "directive | meaning")} == set(DIRECTIVES)
    keys = {row[0].strip("`"): row[1] for row in rows(page, "key | values | default")}
    assert tuple(keys) == TENSOR_KEYS
    assert tuple(re.findall(r"`(\w+)`", keys["role"])) == ROLES
    assert re.findall(r"`(\w+)`", keys["dtype"]) == [*ELEMENT_BITS, *(CONSTANT_BITS.keys() - ELEMENT_BITS), UOP]


def test_the_table_of_instructions_has_their_defaults(page):
    table = {row[0].strip("`"): row[2] for row in rows(page, "instruction | required | defaults other than 0")}
    assert list(table) == [opcode.name.lower() for opcode in Opcode]
    for opcode, cls in CLASSES.items():
        defaults = {f.name: int(f.default) for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}
        named = {name: int(value) for name, value in re.findall(r"`(\w+)=(\d+)`", table[opcode.name.lower()])}
        assert named == {name: value for name, value in defaults.items() if value}


def test_the_table_of_tokens_names_their_flags(page):
    for written, *flags in rows(page, "written | on load | on compute | on store"):
        for unit, flag in zip(Unit, flags, strict=True):
            if flag:
                program = assemble(f".config preset=tiny\nsync {unit.label} {written.strip('`')}\n")
                text = disassemble(program).splitlines()[-1]
                assert text == f"sync {unit.label} {written.strip('`')}"
                assert getattr(decode(program.config, program.words)[0], flag.strip("`")) == 1
