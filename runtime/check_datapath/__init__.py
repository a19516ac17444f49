"""The check of a datapath: its SystemVerilog computes what the tensor expression says, in time."""

from vdla.runtime.check_datapath.check import DatapathMismatch, check_datapath
from vdla.runtime.check_datapath.cocotb_file import datapath_sources, render_datapath_test, test_file_name
from vdla.runtime.check_datapath.cycles import DatapathCycle, datapath_cycles

__all__ = [
    "DatapathCycle",
    "DatapathMismatch",
    "check_datapath",
    "datapath_cycles",
    "datapath_sources",
    "render_datapath_test",
    "test_file_name",
]
