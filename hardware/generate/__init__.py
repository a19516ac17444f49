"""What is generated from the instruction and register tables: SystemVerilog packages and reference pages."""
