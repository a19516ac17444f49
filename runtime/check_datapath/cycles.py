"""The cycles of a random test of a datapath, for a testbench that drives its ports by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import INPUT, DatapathPort, datapath_units
from vdla.hardware.isa import PlugInUnit
from vdla.runtime.check_datapath.steps import LATER, DatapathStep, RandomSteps, packed, result_port


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
    found: dict[int, dict[str, int]] = {}
    for step in steps:
        if step.result is not None:
            port = result_port(unit, step)
            bits = int.from_bytes(packed(step.result, ports[port]), "little")
            found.setdefault(step.cycle + step.latency, {})[port] = bits
    return found
