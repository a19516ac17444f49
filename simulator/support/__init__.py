"""What the rooms of the simulator share: its errors (NumPy only) and the decorators that compile kernels (Numba)."""
