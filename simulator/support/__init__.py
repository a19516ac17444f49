# SPDX-License-Identifier: Apache-2.0
"""Shared by the simulator's rooms: errors (NumPy only), decorators of compiled code (Numba)."""
