"""Benchmarks behind `vdla bench NAME`."""
