"""CPU kernels against other libraries."""
