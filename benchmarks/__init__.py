# SPDX-License-Identifier: Apache-2.0
"""Benchmarks behind `vdla bench NAME`."""
