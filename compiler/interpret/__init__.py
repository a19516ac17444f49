"""The reference semantics of the loop-nest IR, executed with NumPy."""
