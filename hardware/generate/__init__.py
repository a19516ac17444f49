"""Generators of SystemVerilog packages and reference pages from the instruction and register tables."""
