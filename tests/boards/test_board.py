# SPDX-License-Identifier: Apache-2.0
"""Descriptions of boards: the facts of those that come with VDLA, further ones, every error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vdla.boards.board import FOLDER, BoardError, board_from_dict, board_names, load_board
from vdla.boards.family import FAMILIES
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.fpga.parts import PARTS, part_of_preset

WITH = " with a processor zynq7"


def document(name: str = "pynq_z2") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name / "board.json").read_text())
    return found


def test_the_boards_that_come_with_vdla() -> None:
    assert board_names() == ["aup_zu3", "kr260", "kv260", "pynq_z1", "pynq_z2", "ultra96_v2", "zcu104", "zybo_z7_20"]
    assert [load_board(name).name for name in board_names()] == board_names()


@pytest.mark.parametrize("name", board_names())
def test_part_and_clock_agree_with_those_of_the_presets(name: str) -> None:
    board = load_board(name)
    for preset in board.presets:  # a configuration of a board has no preset
        assert part_of_preset(preset) is PARTS[board.fpga]
        assert PRESETS[preset].clock_mhz == board.clock_mhz
        assert board.config(preset) is PRESETS[preset]


def test_every_preset_of_a_board_is_on_one() -> None:
    offered = [preset for name in board_names() for preset in load_board(name).presets]
    assert sorted(offered) == sorted(set(PRESETS) - {"osdi18", "tiny", "int4", "batch4"})


def test_a_ports_width_is_that_of_the_default_machine() -> None:
    for name in board_names():
        board = load_board(name)
        assert board.config().port_bits == board.memory_port_bits


def test_dram_beyond_2_gib_has_a_second_region() -> None:
    assert load_board("pynq_z1").memory_regions == ((0, 512 << 20),)
    assert load_board("ultra96_v2").memory_regions == ((0, 2 << 30),)
    assert load_board("kv260").memory_regions == ((0, 2 << 30), (0x8_0000_0000, 2 << 30))


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
def test_a_further_board_is_one_file(folder: bool, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text(json.dumps({**document(), "name": "mine", "title": "My board", "control_base": "0x40000000"}))
    board = load_board(tmp_path if folder else path)
    assert (board.name, board.control_base, board.preset) == ("mine", 0x4000_0000, "pynq_z2")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(BoardError) as caught:
        load_board("pynq_z3")
    assert str(caught.value) == (
        "board: name must be one of aup_zu3, kr260, kv260, pynq_z1, pynq_z2, ultra96_v2, zcu104, zybo_z7_20, or a "
        "description in JSON, got pynq_z3 (did you mean pynq_z2?)"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[1]", "content must be a table of fields, got [1]"),
        ("{", "content must be JSON, got an error in line 1: Expecting property name enclosed in double quotes"),
        ("{}", "board: description must have every field, got none for name, title, part, board_part, "),
    ],
)
def test_a_file_without_a_description_is_refused(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    with pytest.raises(BoardError) as missing:
        load_board(path)
    assert str(missing.value) == f"{path}: no such file"
    path.write_text(text)
    with pytest.raises(BoardError) as caught:
        load_board(path)
    assert str(caught.value).startswith(f"{path}: {error}")


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("title", "", "board: title must be printable text, got ''"),
        ("part", 7, "board: part must be printable text, got 7"),
        ("board_part", "z2", "board pynq_z2: board_part must look like vendor:board:part0:1.0, got z2"),
        ("name", "a b", "board: name must be letters, digits and underscores, got 'a b'"),
        ("presets", [], "board pynq_z2: presets must be a list of at least one name, got []"),
        ("presets", ["a", "a"], "board pynq_z2: presets must differ from each other, got a, a"),
        ("presets", ["kv26"], "board pynq_z2: presets must be known to vdla config, got kv26 (did you mean kv260?)"),
        ("presets", ["ultra96"], "board pynq_z2: a memory port of ultra96 must have at most 64 bits, got 128"),
        ("configurations", {}, "board: configurations must be a list of tables of fields, got {}"),
        ("configurations", [7], "board: a configuration must be a table of fields with a name, got 7"),
        (
            "configurations", [{"name": "tiny"}],
            "board: configuration tiny: name must differ from the presets of vdla config, got that of one",
        ),
        (
            "configurations", [{"name": "mine", "clock_mhz": 50}],
            "board: configuration mine: clock_mhz must be left out, since it is the board's, got 50",
        ),
        (
            "configurations", [{"name": "mine", "preset": "pynq"}],
            "board: configuration mine: config: preset must be one of pynq_z1, pynq_z2, pynq_z1_512, pynq_z1_512x2, "
            "pynq_z1_lm, ultra96, zcu104, kv260, kv260_lm, osdi18, tiny, int4, batch4, got pynq "
            "(did you mean pynq_z2?)",
        ),
        (
            "configurations", [{"name": "mine", "block_inn": 32}],
            "board: configuration mine: config: field must be one of acc_kib, array_rate, axi_bits, axi_ports, batch, "
            "block_in, block_out, burst_beats, clock_mhz, command_depth, dram, extensions, inp_bits, inp_kib, name, "
            "out_kib, scl_kib, stage, token_depth, uop_kib, wgt_bits, wgt_kib, got block_inn (did you mean block_in?)",
        ),
        (
            "configurations", [{"name": "mine"}, {"name": "mine"}],
            "board pynq_z2: machines must have different names, got pynq_z2, mine, mine",
        ),
        (
            "configurations", [{"name": "large", "preset": "pynq_z1", "block_in": 64}],
            "board pynq_z2: large must fit a xc7z020, which has 220 DSP slices, got an estimated need of 596; "
            "vdla area has the details",
        ),
        (
            "configurations", [{"name": "deep", "preset": "pynq_z1", "wgt_kib": 1024}],
            "board pynq_z2: deep must fit a xc7z020, which has 140 block RAMs, got an estimated need of 309; "
            "vdla area has the details",
        ),
        ("board_connections", ["a"], "board pynq_z2: board_connections must be pairs of connectors, got a"),
        ("board_connections", "a b", "board pynq_z2: board_connections must be a list of names, got 'a b'"),
        ("clock_mhz", 260, f"board pynq_z2: clock_mhz must be at most 250{WITH}, got 260"),
        (
            "part", "xc7z020clg676-1",
            "board pynq_z2: part must be xc7z020 in clg400, clg484, with a speed grade, for fpga xc7z020, "
            "got xc7z020clg676-1",
        ),
        (
            "part", "xc7z020clg400-7",
            "board pynq_z2: part must be xc7z020 in clg400, clg484, with a speed grade, for fpga xc7z020, "
            "got xc7z020clg400-7",
        ),
        ("memory_ports", "HP0", "board pynq_z2: memory_ports must be a list of at least one name, got 'HP0'"),
        ("memory_port_bits", 32, "board pynq_z2: a memory port of pynq_z2 must have at most 32 bits, got 64"),
        ("memory_port_bits", 96, f"board pynq_z2: memory_port_bits must be one of 32, 64{WITH}, got 96"),
        ("memory_port_bits", 128, f"board pynq_z2: memory_port_bits must be one of 32, 64{WITH}, got 128"),
        (
            "coherent", True,
            "board pynq_z2: coherent must be false with the memory_ports S_AXI_HP0, S_AXI_HP2, "
            "since HP ports do not see the processor's caches, got true",
        ),
        ("fpga", "zu1cg", f"board pynq_z2: fpga must be one of xc7z010, xc7z020, xc7z045{WITH}, got zu1cg"),
        ("fpga", "zu3eg", f"board pynq_z2: fpga must be one of xc7z010, xc7z020, xc7z045{WITH}, got zu3eg"),
        (
            "fpga", "xc7z045",
            "board pynq_z2: part must be xc7z045 in fbg676, ffg676, ffg900, with a speed grade, for fpga xc7z045, "
            "got xc7z020clg400-1",
        ),
        (
            "part", "xc7z999foo",
            "board pynq_z2: part must be xc7z020 in clg400, clg484, with a speed grade, for fpga xc7z020, "
            "got xc7z999foo",
        ),
        (
            "memory_ports", ["S_AXI_ACP"],
            f"board pynq_z2: memory_ports must be one of S_AXI_HP0, S_AXI_HP1, S_AXI_HP2, S_AXI_HP3{WITH}, "
            "got S_AXI_ACP (did you mean S_AXI_HP3?)",
        ),
        (
            "control_port", "M_AXI_GP1",
            "board pynq_z2: control_base must be a multiple of control_bytes in 0x80000000 to 0xbfffffff, "
            "where M_AXI_GP1 reaches, got 0x43c00000",
        ),
        ("interrupt", "FOO", f"board pynq_z2: interrupt must be one of IRQ_F2P{WITH}, got FOO"),
        (
            "dram_bytes", "0x80000000",
            f"board pynq_z2: dram_bytes must be a multiple of 4096 of at most 0x40000000{WITH}, got 0x80000000",
        ),
        (
            "control_base", "0x10000000",
            "board pynq_z2: control_base must be a multiple of control_bytes in 0x40000000 to 0x7fffffff, "
            "where M_AXI_GP0 reaches, got 0x10000000",
        ),
        ("memory_port_bits", True, "board pynq_z2: memory_port_bits must be an integer above 0, got True"),
        ("clock_mhz", 0, "board pynq_z2: clock_mhz must be a number above 0 and at most 1000, got 0"),
        ("coherent", 0, "board pynq_z2: coherent must be true or false, got 0"),
        ("processor", "zynq", "board pynq_z2: processor must be one of zynq7, zynqmp, got zynq (did you mean zynq7?)"),
        ("address_bits", 40, "board pynq_z2: address_bits must be 32 with a processor zynq7, got 40"),
        ("cpu", "cortex-a53", "board pynq_z2: cpu must be cortex-a9 with a processor zynq7, got cortex-a53"),
        ("control_bytes", 6144, "board pynq_z2: control_bytes must be a power of two of at least 4096, got 6144"),
        (
            "control_base",
            "0x43C00800",
            "board pynq_z2: control_base must be a multiple of control_bytes in 0x40000000 to 0x7fffffff, "
            "where M_AXI_GP0 reaches, got 0x43c00800",
        ),
        ("control_base", "0x", "board: control_base must be an integer or text such as 0x1000, got '0x'"),
        (
            "interrupt_controller_base",
            "0x43C00000",
            "board pynq_z2: interrupt_controller_base must differ from control_base, got 0x43c00000",
        ),
        (
            "clock_mhs",
            1,
            "board: field must be one of name, title, part, board_part, board_files, fpga, processor, presets, "
            "clock_mhz, memory_ports, memory_port_bits, coherent, address_bits, control_port, control_base, "
            "control_bytes, interrupt, interrupt_controller_base, dram_bytes, cpu, configurations, board_connections, "
            "got clock_mhs (did you mean clock_mhz?)",
        ),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_refused(field: str, value: object, error: str) -> None:
    with pytest.raises(BoardError) as caught:
        board_from_dict({**document(), field: value})
    assert str(caught.value) == error


def test_a_preset_of_another_board_is_refused() -> None:
    with pytest.raises(BoardError) as caught:
        load_board("pynq_z1").config("pynq_z2")
    assert str(caught.value) == (
        "board pynq_z1: preset must be one of pynq_z1, pynq_z1_512, pynq_z1_512x2, pynq_z1_lm, got pynq_z2 "
        "(did you mean pynq_z1?)"
    )


def test_a_board_at_another_clock_runs_its_machines_at_it() -> None:
    board = board_from_dict({**document("pynq_z1"), "clock_mhz": 125})
    assert {board.config(name).clock_mhz for name in board.machines} == {125}
    assert board.config("pynq_z1").fingerprint == PRESETS["pynq_z1"].fingerprint


def test_a_configuration_in_the_file_is_a_preset_with_changes() -> None:
    table = {"name": "mine", "preset": "pynq_z1", "wgt_kib": 128, "dram": {"read_latency": 77}}
    board = board_from_dict({**document("pynq_z1"), "presets": [], "configurations": [table]})
    assert board.machines == ("mine",)
    base = PRESETS["pynq_z1"]
    assert board.config() == replace(base, name="mine", wgt_kib=128, dram=replace(base.dram, read_latency=77))
    assert board_from_dict(json.loads(json.dumps(board.to_dict() | {"configurations": [table]}))) == board


def test_a_machine_with_too_many_ports_is_refused() -> None:
    config = Config(name="wide", axi_bits=128, axi_ports=4)
    with pytest.raises(BoardError) as caught:
        load_board("pynq_z1").check_config(config)
    assert str(caught.value) == "board pynq_z1: wide must have at most 2 memory ports, got 4"


def test_every_fpga_of_a_family_is_one_of_the_area_report() -> None:
    assert sorted(fpga for family in FAMILIES.values() for fpga in family.fpgas) == sorted(PARTS)
