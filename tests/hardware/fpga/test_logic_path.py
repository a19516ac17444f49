# SPDX-License-Identifier: Apache-2.0
"""The model of delays against hand computations on small netlists, in the format of Yosys."""

import pytest

from vdla.hardware.fpga.delays import DELAYS
from vdla.hardware.fpga.logic_path import longest_paths

XC7 = DELAYS["xc7"]
OUTPUTS = {"Q", "O", "CO", "P", "PCOUT", "DOADO", "SPO"}


class Netlist:
    """Cells with one net a bit; `net` numbers them by name."""

    def __init__(self):
        self.bits = {}
        self.cells = {}
        self.ports = {}

    def net(self, name):
        return self.bits.setdefault(name, len(self.bits) + 2)

    def add(self, kind, parameters=None, **ports):
        connections = {
            port: [bit if bit in ("0", "1") else self.net(bit) for bit in bits.split()] for port, bits in ports.items()
        }
        self.cells[f"cell{len(self.cells)}"] = {
            "type": kind,
            "parameters": {name: format(value, "b") for name, value in (parameters or {}).items()},
            "port_directions": {port: "output" if port in OUTPUTS else "input" for port in ports},
            "connections": connections,
        }
        return self

    def register(self, data, out, clock="clk_i", **ports):
        return self.add("FDRE", C=clock, D=data, Q=out, **ports)

    def port(self, name, direction, *nets):
        self.ports[name] = {"direction": direction, "bits": [self.net(net) for net in nets]}
        return self

    def report(self, family="xc7"):
        names = {name: {"bits": [bit]} for name, bit in self.bits.items()}
        return longest_paths({"cells": self.cells, "netnames": names, "ports": self.ports}, DELAYS[family])

    def ns(self):
        return self.report().longest("clk_i").estimate_ns


def close(ns):
    return pytest.approx(ns, abs=0.011)


def test_a_lut_beside_its_only_register_costs_no_net():
    alone = Netlist().register("0", "a_q").add("LUT1", I0="a_q", O="n").register("n", "b_q")
    assert alone.ns() == close(XC7.register_out + XC7.net(1, True) + XC7.lut + XC7.register_setup)
    shared = Netlist().register("0", "a_q").add("LUT1", I0="a_q", O="n").register("n", "b_q").register("n", "c_q")
    assert shared.ns() == close(alone.ns() + XC7.net(2, False))


def test_enables_and_resets_are_reached_through_a_net():
    module = Netlist().register("0", "a_q").add("LUT1", I0="a_q", O="n").register("0", "b_q", CE="n")
    lut = XC7.register_out + XC7.net(1, True) + XC7.lut
    assert module.ns() == close(lut + XC7.net(1, False) + XC7.enable_setup)
    module = Netlist().register("0", "a_q").register("0", "b_q", R="a_q")
    assert module.ns() == close(XC7.register_out + XC7.net(1, True) + XC7.reset_setup)


@pytest.mark.parametrize(("loads", "ns"), [(1, 0.40), (2, 0.58), (16, 1.12), (64, 1.40), (1000, 1.40)])
def test_nets_of_registers_grow_with_their_loads_up_to_replication(loads, ns):
    module = Netlist().register("0", "a_q")
    for number in range(loads):
        module.register("a_q", f"b{number}_q")
    assert module.ns() == close(XC7.register_out + ns + XC7.register_setup)


def test_nets_of_luts_are_not_replicated():
    module = Netlist().register("0", "a_q").add("LUT1", I0="a_q", O="n")
    for number in range(1000):
        module.register("n", f"b{number}_q")
    assert module.ns() == close(XC7.register_out + 0.40 + XC7.lut + 0.40 + 0.18 * 9.966 + XC7.register_setup)


def test_a_carry_chain_costs_its_ends_and_little_between():
    module = Netlist().register("0", "a_q").add("LUT1", I0="a_q", O="s")
    module.add("CARRY4", CI="0", DI="0 0 0 0", S="s 0 0 0", CO="c0 c1 c2 c3", O="o0 o1 o2 o3")
    module.add("CARRY4", CI="c3", DI="0 0 0 0", S="0 0 0 0", CO="d0 d1 d2 d3", O="p0 p1 p2 p3")
    module.register("p3", "b_q")
    lut = XC7.register_out + XC7.net(1, True) + XC7.lut
    assert module.ns() == close(lut + XC7.carry_in + XC7.carry_out + XC7.register_setup)
    path = module.report().longest("clk_i")
    assert (path.start, path.end, path.levels) == ("a_q", "b_q", 2)
    assert path.cells == ("FDRE(1)", "LUT1(1)", "CARRY4", "FDRE")


def test_a_bit_of_a_sum_does_not_depend_on_higher_bits():
    module = Netlist().register("0", "a_q")
    module.add("CARRY4", CI="0", DI="0 0 0 0", S="0 0 0 a_q", CO="c0 c1 c2 c3", O="o0 o1 o2 o3")
    module.register("o0", "b_q")
    assert module.report().longest("clk_i") is None


DSP = {"AREG": 0, "BREG": 0, "CREG": 0, "MREG": 0, "PREG": 0}


def multiplier(**registers):
    module = Netlist().register("0", "a_q").register("0", "c_q")
    return module.add("DSP48E1", {**DSP, **registers}, CLK="clk_i", A="a_q", C="c_q", P="p").register("p", "b_q")


def test_registers_of_a_dsp_slice_divide_its_paths():
    into = XC7.register_out + XC7.net(1, True) + XC7.net_to_block
    out = XC7.net(1, False) + XC7.net_to_block + XC7.register_setup
    assert multiplier().ns() == close(into + XC7.dsp_multiply_add + out)
    assert multiplier(PREG=1).ns() == close(into + XC7.dsp_multiply_add)
    assert multiplier(MREG=1).ns() == close(max(into + XC7.dsp_multiply, XC7.dsp_m_out + out, into + XC7.dsp_add + out))
    assert multiplier(AREG=1, CREG=1, MREG=1, PREG=1).ns() == close(max(into + XC7.dsp_setup, XC7.dsp_p_out + out))


def test_a_dsp_slice_without_its_middle_register_limits_the_clock():
    full = multiplier(AREG=1, BREG=1, MREG=1, PREG=1).report()
    assert full.period_ns == {"clk_i": XC7.dsp_period}
    assert multiplier(AREG=1, BREG=1, PREG=1).report().period_ns == {"clk_i": XC7.dsp_period_without_m}


def test_cascades_of_dsp_slices_have_no_net():
    module = Netlist().add("DSP48E1", {**DSP, "PREG": 1}, CLK="clk_i", A="0", PCOUT="pc", P="x")
    module.add("DSP48E1", {**DSP, "PREG": 1}, CLK="clk_i", PCIN="pc", P="y")
    assert module.ns() == close(XC7.dsp_p_out + XC7.dsp_pcout + XC7.dsp_cascade_add)


@pytest.mark.parametrize(("register", "ns"), [(0, XC7.block_ram_out), (1, XC7.block_ram_registered_out)])
def test_the_output_register_of_a_block_ram_shortens_its_paths(register, ns):
    module = Netlist().add("RAMB36E1", {"DOA_REG": register}, CLKARDCLK="clk_i", DOADO="d").register("d", "b_q")
    assert module.ns() == close(ns + XC7.net(1, False) + XC7.net_to_block + XC7.register_setup)


def test_clocks_have_paths_of_their_own_and_crossings_count_for_both():
    module = Netlist().register("0", "a_q").register("0", "f_q", "clk2x_i")
    module.add("LUT1", I0="a_q", O="n").register("n", "b_q")
    module.register("f_q", "g_q", "clk2x_i")
    module.add("LUT1", I0="a_q", O="m").add("LUT1", I0="m", O="k").register("k", "h_q", "clk2x_i")
    report = module.report()
    assert set(report.paths) == {"clk_i clk_i", "clk2x_i clk2x_i", "clk_i clk2x_i"}
    assert report.longest("clk_i").end == "b_q"
    assert report.longest("clk2x_i").end == "g_q"
    assert report.fastest_budget("clk2x_i").end == "h_q"
    assert report.fastest_budget("clk4x_i") is None


def test_paths_from_inputs_and_to_outputs_are_apart():
    module = Netlist().port("data_i", "input", "in").port("clk_i", "input", "clk_i").port("data_o", "output", "out")
    module.add("LUT1", I0="in", O="n").register("n", "b_q").add("LUT1", I0="b_q", O="out")
    report = module.report()
    assert report.paths == {}
    assert (report.inputs[0].start, report.inputs[0].end) == ("input", "b_q")
    assert report.inputs[0].estimate_ns == close(XC7.net(1, True) + XC7.lut + XC7.register_setup)
    assert (report.outputs[0].start, report.outputs[0].end) == ("b_q", "data_o")


def test_paths_are_sorted_and_each_ends_in_another_register():
    module = Netlist().register("0", "a_q").register("a_q", "b_q[0]").register("a_q", "b_q[1]")
    module.add("LUT1", I0="a_q", O="n").register("n", "c_q")
    assert [path.end for path in module.report().paths["clk_i clk_i"]] == ["c_q", "b_q"]


def test_ultrascale_plus_is_faster_than_series_7_in_every_delay():
    fast, slow = DELAYS["xcup"], DELAYS["xc7"]
    assert all(getattr(fast, name) < getattr(slow, name) for name in fast.__dataclass_fields__)


def test_a_netlist_without_registers_has_no_path():
    assert Netlist().add("LUT1", I0="a", O="b").report().paths == {}
