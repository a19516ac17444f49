"""Functional coverage of programs."""
