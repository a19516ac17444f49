# SPDX-License-Identifier: Apache-2.0
"""The Vivado flow of every board and preset, executed by Tcl against a model of Vivado."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.recorded_vivado import Recorded, run_flow, write_flow

from vdla.boards.board import Board, board_names, load_board
from vdla.boards.hwh import render_hwh
from vdla.boards.ip import IP_VLNV
from vdla.hardware.config import Config
from vdla.hardware.fpga.parts import PARTS
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.registers import REGISTERS
from vdla.hardware.generate.rtl_files import rtl_files

MACHINES = [(name, machine) for name in board_names() for machine in load_board(name).machines]

# Pins and interfaces of the vendor's cells that a design may use, from their product guides.
CELLS = {
    "smartconnect": {"aclk", "aresetn", "S00_AXI", "M00_AXI", "M01_AXI"},
    "axi_protocol_converter": {"aclk", "aresetn", "S_AXI", "M_AXI"},
    "axi_intc": {"s_axi_aclk", "s_axi_aresetn", "s_axi", "intr", "irq"},
    "proc_sys_reset": {"slowest_sync_clk", "ext_reset_in", "dcm_locked", "peripheral_aresetn"},
    "clk_wiz": {"clk_in1", "resetn", "clk_out1", "clk_out2", "locked"},
    "processing_system7": {
        "FCLK_CLK0", "FCLK_RESET0_N", "IRQ_F2P", "M_AXI_GP0", "M_AXI_GP0_ACLK",
        *(f"S_AXI_HP{port}{end}" for port in range(4) for end in ("", "_ACLK")),
    },
    "zynq_ultra_ps_e": {
        "pl_clk0", "pl_resetn0", "pl_ps_irq0", "M_AXI_HPM0_FPD", "maxihpm0_fpd_aclk",
        *(f"S_AXI_HP{port}_FPD" for port in range(4)),
        *(f"saxihp{port}_fpd_aclk" for port in range(4)),
    },
}  # fmt: skip


class Flow:
    """A run of the flow, and the design that it connected."""

    def __init__(self, board: Board, config: Config, recorded: Recorded) -> None:
        self.board, self.config, self.recorded = board, config, recorded
        cells = recorded.of("create_bd_cell")
        self.kinds = {words[-1]: recorded.value_of(words, "-vlnv").split(":")[2] for words in cells}
        self.nets = recorded.of("connect_bd_net") + recorded.of("connect_bd_intf_net")
        self.driver = {sink: source for source, sink in self.nets}
        self.wrapper = (recorded.folder / "rtl" / "vdla_ip.v").read_text()
        self.clock = next(words for words in self.nets if words[1] == "vdla_0/aclk")[0]

    @property
    def ps(self) -> str:
        return next(name for name, kind in self.kinds.items() if "ps" in kind or "processing" in kind)

    def config_of(self, cell: str) -> dict[str, str]:
        """The settings of a cell."""
        found: dict[str, str] = {}
        for words in self.recorded.of("set_property"):
            if words[0] == "-dict" and words[-1] == cell:
                items = words[1].split()
                found |= dict(zip(items[::2], items[1::2], strict=True))
        return found


@pytest.fixture(scope="module", params=MACHINES, ids=[preset for _, preset in MACHINES])
def flow(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    name, preset = request.param
    board = load_board(name)
    config = board.config(preset)
    folder = tmp_path_factory.mktemp(preset)
    write_flow(board, config, folder)
    recorded = run_flow(folder, board)
    assert recorded.error == ""
    assert recorded.code == 0
    yield Flow(board, config, recorded)


def wrapper_ports(text: str) -> dict[str, str]:
    """The ports of the wrapper: name and direction."""
    return {name: way for way, name in re.findall(r"^\s*(input|output)\s+wire\s+(?:\[\d+:0\]\s*)?(\w+)", text, re.M)}


def test_the_flow_ends_with_two_files_of_one_name(flow: Flow) -> None:
    folder, name = flow.recorded.folder, flow.config.name
    assert (folder / f"{name}.bit").read_text() == "bits"
    parameters = dict(re.findall(r'NAME="(\w+)" VALUE="([\w.]+)"', (folder / f"{name}.hwh").read_text()))
    added = {"PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": "100", "PCW_FPGA_FCLK0_ENABLE": "1"}
    reached = {"PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": "166.665"}
    assert parameters == (added if flow.board.processor == "zynq7" else reached)


def test_every_file_of_the_rtl_is_read_and_every_package_before_its_users(flow: Flow) -> None:
    rtl = [Path(words[-1]) for words in flow.recorded.of("add_files") if "/rtl/" in words[-1]]
    names = [path.name for path in rtl]
    assert sorted(names) == sorted({"vdla_pkg.sv", "vdla_ip.v"} | {path.name for path in rtl_files()})
    assert sorted(names) == sorted(path.name for path in (flow.recorded.folder / "rtl").iterdir())
    position = {path.stem: index for index, path in enumerate(rtl)}
    modules = set()
    for path in rtl:
        text = re.sub(r"//.*", "", path.read_text())
        modules |= set(re.findall(r"^module (\w+)", text, re.M))
        for package in set(re.findall(r"\b(\w+_pkg)::", text)) - {path.stem}:
            assert position[package] < position[path.stem], (package, path.name)
    tops = [words[1] for words in flow.recorded.of("set_property") if words[0] == "top"]
    assert tops == ["vdla_ip", "vdla_system_wrapper"]
    assert "vdla_ip" in modules
    design = flow.recorded.of("create_bd_design")[0][0]
    assert not modules & {design, f"{design}_wrapper"}


def test_the_part_and_the_board_are_those_of_the_table(flow: Flow) -> None:
    parts = {flow.recorded.value_of(words, "-part") for words in flow.recorded.of("create_project")}
    assert parts == {flow.board.part}
    assert ["board_part", flow.board.board_part, "current_project"] in flow.recorded.of("set_property")


def test_the_memories_use_ultra_ram_where_there_is_some(flow: Flow) -> None:
    text = (flow.recorded.folder / "rtl" / "vdla_ram.sv").read_text()
    assert text.startswith("`define VDLA_ULTRA_RAM") == (PARTS[flow.board.fpga].uram > 0)


# --- the packaged IP ------------------------------------------------------------------------------


def test_every_port_of_the_wrapper_is_in_one_interface(flow: Flow) -> None:
    ports = Counter(port for words in flow.recorded.of("ipx::infer_bus_interface") for port in words[0].split())
    assert ports == Counter(list(wrapper_ports(flow.wrapper)))


def test_the_clock_names_every_axi_interface_and_the_reset(flow: Flow) -> None:
    values = {words[2].split(":")[1]: words[1] for words in flow.recorded.of("set_property") if words[0] == "value"}
    stated = re.search(r"ASSOCIATED_BUSIF ([\w:]+), ASSOCIATED_RESET (\w+)", flow.wrapper)
    assert stated is not None
    assert (values["ASSOCIATED_BUSIF"], values["ASSOCIATED_RESET"]) == stated.groups()
    assert (values["POLARITY"], values["SENSITIVITY"]) == ("ACTIVE_LOW", "LEVEL_HIGH")


def test_the_parameters_identify_the_hardware_in_the_wrapper(flow: Flow) -> None:
    values = {words[2].split(":")[1]: words[1] for words in flow.recorded.of("set_property") if words[0] == "value"}
    build = re.search(r"\.Build\(48'h(\w+)\)", flow.wrapper)
    assert build is not None
    assert values["BUILD"] == build[1] == build_hash(flow.config)
    assert values["FINGERPRINT"] == flow.config.fingerprint
    assert (values["PRESET"], values["COHERENT"]) == (flow.config.name, "0")
    identity = {words[0]: words[1] for words in flow.recorded.of("set_property") if words[-1] == "current_core"}
    package = flow.recorded.of("ipx::package_project")[0]
    library = (flow.recorded.value_of(package, "-vendor"), flow.recorded.value_of(package, "-library"))
    assert ":".join((*library, identity["name"], identity["version"])) == IP_VLNV


def test_the_registers_are_those_of_the_table(flow: Flow) -> None:
    settings = flow.recorded.of("set_property")
    offsets = {words[2].split(":")[1]: int(words[1], 16) for words in settings if words[0] == "address_offset"}
    assert offsets == {register.name: register.offset for register in REGISTERS}
    fields = {words[2].split(":")[1] for words in settings if words[0] == "bit_width"}
    assert {"start", "reset", "busy", "pending", "id"} <= fields


def test_the_memory_interfaces_state_their_transactions(flow: Flow) -> None:
    values = {words[2].split(":")[1]: words[1] for words in flow.recorded.of("set_property") if words[0] == "value"}
    stated = {name: int(values[name]) for name in values if name.startswith(("NUM_", "MAX_", "SUPPORTS_"))}
    assert stated == {
        "MAX_BURST_LENGTH": flow.config.burst_beats,
        "NUM_READ_OUTSTANDING": flow.config.dram.outstanding_reads,
        "NUM_WRITE_OUTSTANDING": flow.config.dram.outstanding_writes,
        "SUPPORTS_NARROW_BURST": 0,
    }
    assert len(flow.recorded.of("ipx::add_bus_parameter")) == 4 * flow.config.axi_ports + 4


# --- the design -----------------------------------------------------------------------------------


def test_every_pin_exists_and_is_driven_once(flow: Flow) -> None:
    used = [pin for words in flow.nets for pin in words]
    for pin in used:
        cell, name = pin.split("/")
        kind = flow.kinds[cell]
        if kind == "vdla":
            assert name in own_pins(flow), pin
        else:
            assert name in CELLS[kind], pin
    assert [pin for pin, count in Counter(sink for _, sink in flow.nets).items() if count > 1] == []


def own_pins(flow: Flow) -> set[str]:
    """The pins and interfaces of the accelerator in a design."""
    ports = wrapper_ports(flow.wrapper)
    buses = {re.sub(r"_(?:ar|aw|r|w|b)\w*$", "", name) for name in ports if "_axi" in name}
    return buses | {name for name in ports if "_axi" not in name}


def test_every_pin_of_the_accelerator_is_connected(flow: Flow) -> None:
    connected = {pin.split("/")[1] for words in flow.nets for pin in words if pin.startswith("vdla_0/")}
    assert connected == own_pins(flow)


def test_every_clock_and_reset_is_connected(flow: Flow) -> None:
    clocked = [cell for cell, kind in flow.kinds.items() if kind in ("vdla", "smartconnect", "axi_protocol_converter")]
    expected = {f"{cell}/aclk": flow.clock for cell in clocked}
    expected |= {"axi_intc_0/s_axi_aclk": flow.clock, "proc_sys_reset_0/slowest_sync_clk": flow.clock}
    reset = "proc_sys_reset_0/peripheral_aresetn"
    expected |= {f"{cell}/aresetn": reset for cell in clocked}
    expected |= {"axi_intc_0/s_axi_aresetn": reset}
    zynq7 = flow.board.processor == "zynq7"
    for port in flow.board.memory_ports[: flow.config.axi_ports]:
        expected[f"{flow.ps}/{port}_ACLK" if zynq7 else f"{flow.ps}/s{port[2:].lower().replace('_', '', 1)}_aclk"] = (
            flow.clock
        )
    control = flow.board.control_port
    expected[f"{flow.ps}/{control}_ACLK" if zynq7 else f"{flow.ps}/maxihpm0_fpd_aclk"] = flow.clock
    assert {pin: flow.driver.get(pin) for pin in expected} == expected


def test_control_memory_and_interrupt_reach_the_processing_system(flow: Flow) -> None:
    assert flow.driver["vdla_0/s_axi_control"].split("/")[0] == "control_0"
    assert flow.driver["control_0/S00_AXI"] == f"{flow.ps}/{flow.board.control_port}"
    ports = flow.board.memory_ports[: flow.config.axi_ports]
    for number, port in enumerate(ports):
        name = "m_axi" if len(ports) == 1 else f"m_axi_{number}"
        if flow.board.processor == "zynqmp":  # whose ports are AXI4 as well
            assert flow.driver[f"{flow.ps}/{port}"] == f"vdla_0/{name}"
            continue
        assert flow.driver[f"{flow.ps}/{port}"] == f"memory_{number}/M_AXI"
        assert flow.driver[f"memory_{number}/S_AXI"] == f"vdla_0/{name}"
        protocols = {"SI_PROTOCOL": "AXI4", "MI_PROTOCOL": "AXI3", "TRANSLATION_MODE": "2"}
        assert flow.config_of(f"memory_{number}") == {f"CONFIG.{name}": value for name, value in protocols.items()}
    assert flow.driver["axi_intc_0/intr"] == "vdla_0/irq"
    assert flow.driver[f"{flow.ps}/{flow.board.interrupt}"] == "axi_intc_0/irq"


def test_the_processing_system_has_the_ports_and_the_clock(flow: Flow) -> None:
    config = flow.config_of(flow.ps)
    ports = flow.board.memory_ports[: flow.config.axi_ports]
    numbers = [int(re.sub(r"\D", "", port)) for port in ports]
    if flow.board.processor == "zynq7":
        expected = {f"PCW_USE_S_AXI_HP{number}": "1" for number in numbers}
        expected |= {f"PCW_S_AXI_HP{number}_DATA_WIDTH": "64" for number in numbers}
        expected |= {"PCW_USE_M_AXI_GP0": "1", "PCW_FPGA0_PERIPHERAL_FREQMHZ": "100", "PCW_IRQ_F2P_INTR": "1"}
    else:
        expected = {f"PSU__USE__S_AXI_GP{number + 2}": "1" for number in numbers}
        expected |= {f"PSU__SAXIGP{number + 2}__DATA_WIDTH": "128" for number in numbers}
        expected |= {"PSU__USE__M_AXI_GP0": "1", "PSU__MAXIGP0__DATA_WIDTH": "32", "PSU__USE__IRQ0": "1"}
        expected |= {"PSU__CRL_APB__PL0_REF_CTRL__FREQMHZ": "166.667"}
    shown = {name: config.get(f"CONFIG.{name}") for name in expected}
    assert shown == expected


def test_multipliers_at_twice_the_clock_have_a_clock_of_the_same_mmcm(flow: Flow) -> None:
    if flow.config.array_rate == 1:
        assert "clk_wiz_0" not in flow.kinds
        assert flow.clock.startswith(flow.ps)
        return
    config = {name.removeprefix("CONFIG."): value for name, value in flow.config_of("clk_wiz_0").items()}
    assert (flow.clock, flow.driver["vdla_0/aclk2x"]) == ("clk_wiz_0/clk_out1", "clk_wiz_0/clk_out2")
    assert config["PRIMITIVE"] == "MMCM"
    assert float(config["CLKOUT1_REQUESTED_OUT_FREQ"]) == flow.config.clock_mhz
    assert float(config["CLKOUT2_REQUESTED_OUT_FREQ"]) == 2 * flow.config.clock_mhz
    assert config["CLKOUT1_REQUESTED_PHASE"] == config["CLKOUT2_REQUESTED_PHASE"] == "0"
    assert flow.driver["proc_sys_reset_0/dcm_locked"] == "clk_wiz_0/locked"


def test_carriers_are_connected_and_all_is_synthesised_at_once(flow: Flow) -> None:
    settings = flow.recorded.of("set_property")
    connections = [words[1].split() for words in settings if words[0] == "board_connections"]
    assert connections == ([list(flow.board.board_connections)] if flow.board.board_connections else [])
    assert [words[1] for words in settings if words[0] == "synth_checkpoint_mode"] == ["None"]


def test_segments_that_are_no_dram_are_excluded(flow: Flow) -> None:
    excluded = [words[-1].split("/")[-1] for words in flow.recorded.of("exclude_bd_addr_seg")]
    if flow.board.processor == "zynq7":
        assert excluded == []
        return
    low = ["DDR_HIGH"] if flow.board.dram_bytes <= 2 << 30 else []
    ports = [f"HP{port}" for port in range(flow.config.axi_ports)]
    assert excluded == [f"{port}_{segment}" for port in ports for segment in (*low, "LPS_OCM", "QSPI")]


def test_addresses_are_those_that_the_driver_sees(flow: Flow) -> None:
    assigned: dict[str, tuple[int, int]] = {}
    memory: dict[str, list[tuple[int, int]]] = {}
    for words in flow.recorded.of("assign_bd_address"):
        offset, span = (int(flow.recorded.value_of(words, option), 16) for option in ("-offset", "-range"))
        space = flow.recorded.value_of(words, "-target_address_space")
        segment = next(word for word in words[6:] if "/" in word)
        if space == f"{flow.ps}/Data":
            assigned[segment.split("/")[0]] = (offset, span)
        else:
            memory.setdefault(space, []).append((offset, span))
    root = ElementTree.fromstring(render_hwh(flow.board, flow.config, build_hash(flow.config)))
    seen = {}
    for mapping in root.iter("MEMRANGE"):
        base, high = (int(mapping.get(name, ""), 16) for name in ("BASEVALUE", "HIGHVALUE"))
        seen[mapping.get("INSTANCE")] = (base, high - base + 1)
    assert assigned == seen
    assert assigned["vdla_0"] == (flow.board.control_base, flow.board.control_bytes)
    assert len(memory) == flow.config.axi_ports
    assert {sum(span for _, span in spans) for spans in memory.values()} == {flow.board.dram_bytes}
