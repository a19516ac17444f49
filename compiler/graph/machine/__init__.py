# SPDX-License-Identifier: Apache-2.0
"""Nodes as operators of the accelerator: templates, and packed layouts of activations."""
