# SPDX-License-Identifier: Apache-2.0
"""FPGA resources of a configuration: synthesis by Yosys, cells by unit, the longest logic path."""
