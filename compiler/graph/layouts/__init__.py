# SPDX-License-Identifier: Apache-2.0
"""Nodes on images in blocks of channels on CPUs: how each operator follows that layout."""
