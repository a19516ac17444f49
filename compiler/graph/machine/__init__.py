# SPDX-License-Identifier: Apache-2.0
"""Nodes as operators of the accelerator: one template a node, packed layouts of its activations."""
