"""Small services that every room may import: atomic writes, cache folders, integer checks."""
