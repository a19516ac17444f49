"""The files of one datapath for a testbench, which drives the ports of a step.

A datapath that uses the array of multipliers has the machine's behind it, in a module with its
other ports. The array is that of a machine at the single clock: the other has the same cycles.
"""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import ARRAY_PORTS, datapath_ports, module_name, step_ports
from vdla.hardware.generate.rtl_files import EXTENSION_FOLDER, FOLDER, PACKAGE, needed_files
from vdla.hardware.generate.svgen import render_for_datapath
from vdla.hardware.isa import PlugInUnit

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
    own = {f"{module_name(unit)}.sv": unit.datapath.text}
    package = {PACKAGE: render_for_datapath(config, unit)}
    if not unit.array:
        return {**package, **own}
    array = needed_files(FOLDER / EXTENSION_FOLDER / "vdla_ext_array.sv")
    rtl = {path.name: path.read_text(encoding="utf-8") for path in array}
    return {**package, **rtl, **own, f"{bench_module(unit)}.sv": _on_array(config, unit)}


def _on_array(config: Config, unit: PlugInUnit) -> str:
    wires = {name: name[:-2] for name in ARRAY_PORTS}
    pins = [f".{port.name}({wires.get(port.name, port.name)})" for port in datapath_ports(config, unit)]
    return _ON_ARRAY.format(
        module=module_name(unit),
        top=bench_module(unit),
        ports=",\n".join(f"  {port.declaration}" for port in step_ports(config, unit)),
        pins=",\n".join(f"    {pin}" for pin in pins),
    )
