"""The machine: configuration, instruction set, programs, timing. Imports only `vdla.support`."""
