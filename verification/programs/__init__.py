"""Programs that tests and benchmarks run: suites, random programs, mutants."""
