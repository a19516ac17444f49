"""Services that every room may import: errors, integers, atomic writes, caches, suggestions."""
