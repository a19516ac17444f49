# SPDX-License-Identifier: Apache-2.0
"""The benchmark of extensions: generated tests, mutants, planted faults, simulator against RTL."""
