"""The machine: configuration, instruction set, programs, timing constants. Imports only `vdla.support`."""
