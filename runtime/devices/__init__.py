"""Devices behind one protocol: allocate, write, read, run."""
