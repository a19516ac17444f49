# SPDX-License-Identifier: Apache-2.0
"""Generators of SystemVerilog packages and of reference pages, from the tables."""
