"""The benchmark of extensions: generated tests, mutants, planted faults, simulator against RTL."""
