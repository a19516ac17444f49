# SPDX-License-Identifier: Apache-2.0
"""A run of a program on the simulator, stopped anywhere, forwards and backwards."""
