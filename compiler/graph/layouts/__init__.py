"""Nodes on images in blocks of channels on CPUs: how each operator follows that layout."""
