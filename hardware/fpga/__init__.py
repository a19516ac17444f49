"""FPGA resources of a configuration: synthesis by Yosys, cells by unit, the longest logic path."""
