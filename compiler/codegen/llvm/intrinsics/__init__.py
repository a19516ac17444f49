"""The tensor intrinsics of CPUs: dot products, sliding windows, bit-serial products."""
