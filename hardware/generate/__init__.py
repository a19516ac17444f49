"""Generators of SystemVerilog packages and of reference pages, from the tables."""
