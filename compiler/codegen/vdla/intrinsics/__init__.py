"""The operations of the VDLA, declared with the public intrinsic API."""
