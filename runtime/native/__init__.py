"""Compiled kernels in this process."""
