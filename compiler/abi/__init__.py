"""The C interface of compiled kernels: signatures, error codes, headers. Needs NumPy only."""
