"""The check of a datapath: its SystemVerilog computes what the tensor expression says, in time."""

from vdla.runtime.check_datapath.check import DatapathMismatch, check_datapath

__all__ = ["DatapathMismatch", "check_datapath"]
