"""Tensor intrinsics of CPUs."""
