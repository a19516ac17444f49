# SPDX-License-Identifier: Apache-2.0
"""The protocol checkers accept legal traffic; each violation breaks exactly its rule."""

import cocotb
import pytest
from helpers.rtl.rtl_bench import Bench
from helpers.rtl.rtl_runner import simulate

READ_RULES = [
    "AddressStaysOffered",
    "AddressIsStable",
    "BurstIsWhole",
    "BurstInPage",
    "BurstIsShort",
    "IdIsKnown",
    "LimitIsKept",
    "BeatIsStable",
    "BeatWasRequested",
    "LastIsLast",
]
WRITE_RULES = [
    "AddressStaysOffered",
    "AddressIsStable",
    "BurstIsWhole",
    "BurstInPage",
    "BurstIsShort",
    "BeatIsStable",
    "BeatHasAddress",
    "BeatIsFull",
    "LastIsLast",
    "LimitIsKept",
    "ResponseWasRequested",
]
LITE_RULES = [
    "WriteAddressIsStable",
    "WriteDataIsStable",
    "WriteResponseIsStable",
    "ReadAddressIsStable",
    "ReadDataIsStable",
    "WriteWasRequested",
    "ReadWasRequested",
]


@pytest.mark.rtl
def test_the_axi_read_checker_passes_its_bench():
    simulate("axi_read_check", __file__, Stop=0, MostBeats=16)


@pytest.mark.rtl
def test_the_axi_write_checker_passes_its_bench():
    simulate("axi_write_check", __file__, Stop=0, MostBeats=16)


@pytest.mark.rtl
def test_the_axi_lite_checker_passes_its_bench():
    simulate("axil_check", __file__, Stop=0)


# One cycle of traffic: the driven pins; all others are 0.


def ar(address=0x100, beats=4, ready=1, ident=1, size=3, burst=1):
    return {
        "arvalid": 1, "arready": ready, "araddr": address, "arlen": beats - 1, "arid": ident, "arsize": size,
        "arburst": burst,
    }  # fmt: skip


def r(data=5, last=0, ready=1, ident=1, resp=0):
    return {"rvalid": 1, "rready": ready, "rdata": data, "rlast": last, "rid": ident, "rresp": resp}


def aw(address=0x100, beats=2, ready=1, ident=0, size=3, burst=1):
    return {
        "awvalid": 1, "awready": ready, "awaddr": address, "awlen": beats - 1, "awid": ident, "awsize": size,
        "awburst": burst,
    }  # fmt: skip


def w(data=5, last=0, ready=1, strb=0xFF):
    return {"wvalid": 1, "wready": ready, "wdata": data, "wlast": last, "wstrb": strb}


def b(resp=0, ready=1, ident=0):
    return {"bvalid": 1, "bready": ready, "bresp": resp, "bid": ident}


READ_CASES = {
    "": [
        [ar(ready=0), ar(ready=0), ar(), {}, r(ready=0), r(), r(6), r(7), r(8, last=1)],
        [ar(beats=1, ident=0), ar(beats=2, ident=2), r(ident=2), r(ident=0, last=1), r(ident=2, last=1)],
        [ar(0xF80, beats=16), ar(0x1000, beats=16), *[r()] * 15, r(last=1), ar(beats=1)],
    ],
    "AddressStaysOffered": [[ar(ready=0), {}]],
    "AddressIsStable": [[ar(ready=0), ar(0x108)], [ar(ready=0), ar(beats=3)], [ar(ready=0), ar(ident=2)]],
    "BurstIsWhole": [[ar(0x101)], [ar(size=2)], [ar(burst=0)], [ar(burst=2)]],
    "BurstInPage": [[ar(0xFF8, beats=2)], [ar(0xF88, beats=16)]],
    "BurstIsShort": [[ar(beats=17)]],
    "IdIsKnown": [[ar(ident=3)]],
    "LimitIsKept": [[ar(), ar(), ar()], [ar(), {**ar(), **r()}, ar()]],
    "BeatIsStable": [[ar(), r(ready=0), {}], [ar(), r(ready=0), r(6)], [ar(), r(ready=0), r(resp=2)]],
    "BeatWasRequested": [[r()], [ar(), r(ident=2)], [ar(beats=1), r(last=1), r(last=1)]],
    "LastIsLast": [[ar(beats=2), r(last=1)], [ar(beats=2), r(), r()]],
}
WRITE_CASES = {
    "": [
        [{**aw(ready=0), **w(ready=0)}, {**aw(ready=0), **w()}, {**aw(ready=0), **w(last=1)}, aw(), {}, b()],
        [aw(), {}, w(), w(last=1), {**aw(0xFF0), **w()}, {**b(2, ready=0), **w(last=1)}, b(2), b()],
    ],
    "AddressStaysOffered": [[aw(ready=0), {}]],
    "AddressIsStable": [[aw(ready=0), aw(0x108)], [aw(ready=0), aw(beats=3)]],
    "BurstIsWhole": [[aw(0x104)], [aw(size=2)], [aw(burst=0)], [aw(ident=1)]],
    "BurstInPage": [[aw(0xFF8)]],
    "BurstIsShort": [[aw(beats=17)]],
    "BeatIsStable": [[aw(), w(ready=0), {}], [aw(), w(ready=0), w(6)]],
    "BeatHasAddress": [[w()], [aw(beats=1), w(last=1), w()]],
    "BeatIsFull": [[aw(), w(strb=0x7F)]],
    "LastIsLast": [[aw(), w(last=1)], [aw(), w(), w()]],
    "LimitIsKept": [[*[aw(beats=1), w(last=1)] * 2, aw(), w()]],
    "ResponseWasRequested": [
        [b()],
        [aw(), w(), b()],
        [aw(beats=1), {**w(last=1), **b()}],
        [aw(), w(), w(last=1), b(ident=1)],
        [aw(ready=0, beats=1), {**aw(ready=0, beats=1), **w(last=1)}, {**aw(ready=0, beats=1), **b()}],
        [aw(beats=1), w(last=1), b(ready=0), b(2)],
        [aw(beats=1), w(last=1), b(ready=0), {}],
    ],
}


def lite_write(address=4, data=7, ready=1):
    return {
        "awvalid": 1, "awready": ready, "awaddr": address, "wvalid": 1, "wready": ready, "wdata": data, "wstrb": 15,
    }  # fmt: skip


def lite_read(address=4, ready=1):
    return {"arvalid": 1, "arready": ready, "araddr": address}


def lite_b(resp=0, ready=1):
    return {"bvalid": 1, "bready": ready, "bresp": resp}


def lite_r(data=1, ready=1):
    return {"rvalid": 1, "rready": ready, "rdata": data}


LITE_CASES = {
    "": [
        [lite_write(ready=0), lite_write(), lite_b(ready=0), lite_b()],
        [lite_read(), lite_read(8), lite_r(), lite_r(2)],
    ],
    "WriteAddressIsStable": [[lite_write(ready=0), {**lite_write(), "awaddr": 8}]],
    "WriteDataIsStable": [
        [lite_write(ready=0), lite_write(data=8)],
        [lite_write(ready=0), {**lite_write(), "wstrb": 1}],
    ],
    "WriteResponseIsStable": [[lite_write(), lite_b(ready=0), lite_b(2)], [lite_write(), lite_b(ready=0), {}]],
    "ReadAddressIsStable": [[lite_read(ready=0), lite_read(8)], [lite_read(ready=0), {}]],
    "ReadDataIsStable": [[lite_read(), lite_r(ready=0), lite_r(2)], [lite_read(), lite_r(ready=0), {}]],
    "WriteWasRequested": [[lite_b()], [{"awvalid": 1, "awready": 1}, lite_b()], [lite_write(), lite_b(), lite_b()]],
    "ReadWasRequested": [[lite_r()], [lite_read(), lite_r(), lite_r()]],
}

CASES = {
    "axi_read_check": (READ_RULES, READ_CASES),
    "axi_write_check": (WRITE_RULES, WRITE_CASES),
    "axil_check": (LITE_RULES, LITE_CASES),
}


@cocotb.test()
async def each_rule_is_broken_only_by_its_cases(dut):
    rules, cases = CASES[dut._name]
    bench = Bench(dut)
    await bench.start(limit_i=2)
    assert set(rules) == set(cases) - {""}
    for expected, traffics in cases.items():
        for traffic in traffics:
            await bench.reset()
            broken = [await broken_in(bench, rules, pins) for pins in traffic]
            assert broken == [set()] * (len(traffic) - 1) + [{expected} - {""}], (expected, traffic)


async def broken_in(bench, rules, pins):
    """The rules that a cycle breaks."""
    for handle in bench.dut:
        name = handle._name
        if name.endswith("_i") and name not in ("clk_i", "rst_ni", "limit_i"):
            bench[name] = pins.get(name.removesuffix("_i"), 0)
    await bench.cycle()
    bits = bench["broken_o"]
    return {rule for index, rule in enumerate(rules) if bits >> index & 1}
