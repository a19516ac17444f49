# SPDX-License-Identifier: Apache-2.0
"""Proofs that the programs of a network compute the integer operators of its graph."""
