# SPDX-License-Identifier: Apache-2.0
"""Compiled networks: their files, which are read, checked and run.

On-board code: NumPy and the standard library only.
"""
