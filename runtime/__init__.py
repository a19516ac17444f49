# SPDX-License-Identifier: Apache-2.0
"""Devices behind one protocol: allocate, write, read, run."""
