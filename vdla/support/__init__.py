"""Services of every room: errors, integers, windows, atomic writes, caches, suggestions."""
