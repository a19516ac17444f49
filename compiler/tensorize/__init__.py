"""Tensor intrinsics and their matching against loop nests."""
