# SPDX-License-Identifier: Apache-2.0
"""A program around one datapath: a cycle's inputs in, the outputs of the cycle out.

A datapath that uses the array of multipliers has the machine's behind it, in a module with its
other ports. The array is that of a machine at the single clock: the other has the same cycles.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import (
    ARRAY_PORTS,
    OUTPUT,
    DatapathPort,
    datapath_ports,
    module_name,
    step_ports,
)
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, PACKAGE, needed_files
from vdla.hardware.generate.svgen import render_for_datapath
from vdla.hardware.isa import PlugInUnit
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.datapath_faults import require_sound
from vdla.runtime.devices.rtl_build import Tools, find_tools, rtl_cache
from vdla.support.cache import CacheError, build_once
from vdla.support.processor import tool_environment

_ON_ARRAY = """\
// {module} on the array of multipliers, of which no GEMM has operands.
module {top}
  import vdla_pkg::*;
  import vdla_gemm_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
{ports}
);
  logic array_valid;
  logic [Batch*HalfGroups*BlockIn*InpBits-1:0] array_inp;
  logic [Batch*WgtEntryBits-1:0] array_wgt;
  logic [Batch*BlockOut*32-1:0] array_sums;

  {module} u_datapath (
{pins}
  );

  vdla_ext_array u_array (
    .clk_i,
    .clk2x_i     (clk_i),
    .rst_ni,
    .inp_entry_i ('0),
    .wgt_entry_i ('0),
    .sums_o      (),
    .drive_i     (array_valid),
    .drive_inp_i (array_inp),
    .drive_wgt_i (array_wgt),
    .drive_sums_o(array_sums)
  );
endmodule
"""


def bench_module(unit: PlugInUnit) -> str:
    """The module that a testbench of a unit's datapath drives."""
    return f"{module_name(unit)}_on_array" if unit.array else module_name(unit)


def datapath_files(config: Config, unit: PlugInUnit) -> dict[str, str]:
    """The text of each file of that module by name, in the order of reading, the package first."""
    assert unit.datapath is not None, "checked before"
    sources = {f"{module_name(unit)}.sv": unit.datapath.text}
    package = {PACKAGE: render_for_datapath(config, unit)}
    if not unit.array:
        return {**package, **sources}
    array = needed_files(FOLDER / EXTENSION_FOLDER / "vdla_ext_array.sv")
    rtl = {path.name: path.read_text(encoding="utf-8") for path in array}
    return {**package, **rtl, **sources, f"{bench_module(unit)}.sv": _on_array(config, unit)}


def _on_array(config: Config, unit: PlugInUnit) -> str:
    wires = {name: name[:-2] for name in ARRAY_PORTS}
    pins = [f".{port.name}({wires.get(port.name, port.name)})" for port in datapath_ports(config, unit)]
    return _ON_ARRAY.format(
        module=module_name(unit),
        top=bench_module(unit),
        ports=",\n".join(f"  {port.declaration}" for port in step_ports(config, unit)),
        pins=",\n".join(f"    {pin}" for pin in pins),
    )


_TOP = "vdla_ext_bench"
_LEAST_BYTES = 12  # Verilator has another type for pins of up to 64 bits
_TIMEOUT_S = 600.0
_LINES = 5  # of a tool that fails, in the message
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
_VERILATE = (
    "--cc", "--prefix", "Vbench", "--top-module", _TOP, "--x-initial", "unique", "-Wno-fatal", "--no-timing",
)  # fmt: skip
_COMPILE = ("-std=c++17", "-pthread", "-w", "-DVM_TRACE=0", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0")

_FRAME = """\
module {top}
  import vdla_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic [8*{input_bytes}-1:0] inputs_i,
  output logic [8*{output_bytes}-1:0] outputs_o
);
{signals}

  {module} u_datapath (
    .clk_i,
    .rst_ni,
{pins}
  );
  always_comb begin
    outputs_o = '0;
{outputs}
  end
endmodule
"""

_MAIN = """\
#include "Vbench.h"
#include "verilated.h"
#include <cstdio>
#include <cstring>
#include <vector>

int main() {{
  std::vector<unsigned char> in({input_bytes}), out({output_bytes});
  VerilatedContext context;
  context.randReset(2);
  context.randSeed(1);
  Vbench top{{&context}};
  auto edge = [&] {{ top.clk_i = 1; top.eval(); top.clk_i = 0; top.eval(); }};
  top.clk_i = 0;
  top.rst_ni = 0;
  for (int k = 0; k < 4; k++) edge();
  top.rst_ni = 1;
  while (std::fread(in.data(), 1, in.size(), stdin) == in.size()) {{
    std::memcpy(top.inputs_i.data(), in.data(), in.size());
    top.eval();
    std::memcpy(out.data(), top.outputs_o.data(), out.size());
    std::fwrite(out.data(), 1, out.size(), stdout);
    edge();
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class DatapathBench:
    """The program of a datapath with these ports, each of which begins at a byte of its own."""

    program: Path
    ports: tuple[DatapathPort, ...]

    @property
    def inputs(self) -> dict[DatapathPort, slice]:
        """The bytes of each input in those of a cycle."""
        return _places(port for port in self.ports if port.direction != OUTPUT)

    @property
    def outputs(self) -> dict[DatapathPort, slice]:
        """The bytes of each output in those of a cycle."""
        return _places(port for port in self.ports if port.direction == OUTPUT)

    @property
    def input_bytes(self) -> int:
        """Bytes of the inputs of a cycle."""
        return _pin_bytes(self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes of the outputs of a cycle."""
        return _pin_bytes(self.outputs)

    def run(self, cycles: bytes) -> bytes:
        """The outputs of all cycles, given their inputs."""
        done = subprocess.run([self.program], input=cycles, capture_output=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode:
            lines = _its_lines((done.stdout + done.stderr).decode(errors="replace"))
            raise DeviceError(
                "\n".join([f"check_datapath: the model must run, got exit code {done.returncode}", *lines])
            )
        return done.stdout


def _places(ports: Iterable[DatapathPort]) -> dict[DatapathPort, slice]:
    places, at = {}, 0
    for port in ports:
        places[port] = slice(at, at + -(-port.bits // 8))
        at = places[port].stop
    return places


def _pin_bytes(places: Mapping[DatapathPort, slice]) -> int:
    most = max((place.stop for place in places.values()), default=0)
    return max(_LEAST_BYTES, -(-most // 4) * 4)


def build_bench(config: Config, unit: PlugInUnit) -> DatapathBench:
    """The program of a unit's datapath, from the cache or built in some seconds.

    DeviceError where a tool is missing or refuses the module; its lines are in the message.
    """
    assert unit.datapath is not None, "checked before"
    bench = DatapathBench(Path(), step_ports(config, unit))
    sizes = {"input_bytes": bench.input_bytes, "output_bytes": bench.output_bytes}
    name = module_name(unit)
    texts = {
        **datapath_files(config, unit),
        f"{_TOP}.sv": _FRAME.format(top=_TOP, module=bench_module(unit), **_wiring(bench), **sizes),
        "main.cpp": _MAIN.format(**sizes),
    }
    tools = find_tools()
    digest = hashlib.sha256("\0".join((tools.versions, *_VERILATE, *_COMPILE, *texts.values())).encode()).hexdigest()[
        :24
    ]
    try:
        program = build_once(rtl_cache() / f"{name}-{digest}", lambda folder: _build(folder, unit, texts, tools))
    except CacheError as error:
        raise DeviceError(f"check_datapath: {error}") from None
    return replace(bench, program=program)


def _wiring(bench: DatapathBench) -> dict[str, str]:
    """The lines of the frame that connect the ports."""
    pins = [f"    .{port.name}(inputs_i[{8 * at.start}+:{port.bits}])" for port, at in bench.inputs.items()]
    pins += [f"    .{port.name}" for port in bench.outputs]
    signals = [f"  logic [{port.bits}-1:0] {port.name};" for port in bench.outputs]
    outputs = [f"    outputs_o[{8 * at.start}+:{port.bits}] = {port.name};" for port, at in bench.outputs.items()]
    return {"pins": ",\n".join(pins), "signals": "\n".join(signals), "outputs": "\n".join(outputs)}


def _build(folder: Path, unit: PlugInUnit, texts: dict[str, str], tools: Tools) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    sources = [folder / name for name in texts if name.endswith(".sv")]
    verilator = tools.verilator_root / "bin" / "verilator_bin"
    require_sound("check_datapath", unit, lambda given: _run(tools, [verilator, *given]), [*map(str, sources)], folder)
    said = _run(tools, [verilator, *_VERILATE, "--Mdir", folder, *sources])
    wrong = [line for line in said.splitlines() if "Warning-WIDTH" in line and f"{_TOP}.sv" in line]
    if wrong:
        raise DeviceError("\n".join(["check_datapath: ports must have the widths of their operands", *wrong]))
    model = "".join(f'#include "{path.name}"\n' for path in sorted(folder.glob("Vbench*.cpp")))
    (folder / "model.cpp").write_text(model, encoding="utf-8")
    sources = [folder / "main.cpp", folder / "model.cpp", *(_runtime_object(tools, name) for name in _RUNTIME)]
    _compile(tools, "-O0", f"-I{folder}", *sources, "-o", folder / "bench")
    return folder / "bench"


def _runtime_object(tools: Tools, name: str) -> Path:
    """An object of Verilator's runtime, compiled once for all datapaths."""
    digest = hashlib.sha256("\0".join((tools.versions, *_COMPILE)).encode()).hexdigest()[:24]

    def build(folder: Path) -> Path:
        _compile(tools, "-O1", "-c", tools.verilator_root / "include" / name, "-o", folder / "object.o")
        return folder / "object.o"

    return build_once(rtl_cache() / f"bench-{name}-{digest}.o", build)


def _compile(tools: Tools, *arguments: str | Path) -> None:
    include = tools.verilator_root / "include"
    _run(tools, [tools.compiler, *_COMPILE, f"-I{include}", f"-I{include / 'vltstd'}", *arguments])


def _run(tools: Tools, command: Sequence[str | Path]) -> str:
    environment = tool_environment(VERILATOR_ROOT=str(tools.verilator_root))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=_TIMEOUT_S)
    said = done.stdout + done.stderr
    if done.returncode:
        name = Path(command[0]).name
        raise DeviceError(
            "\n".join([f"check_datapath: {name} must succeed, got exit code {done.returncode}", *_its_lines(said)])
        )
    return said


def _its_lines(said: str) -> list[str]:
    """The first lines of a tool that name an error, its last ones if none does."""
    lines = [line for line in said.splitlines() if line.strip()]
    return [line for line in lines if "rror" in line][:_LINES] or lines[-_LINES:]
