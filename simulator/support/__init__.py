"""Shared by the simulator's rooms: errors (NumPy only), decorators of compiled code (Numba)."""
