"""Defects planted in the RTL, and what finds them."""
