# SPDX-License-Identifier: Apache-2.0
"""Programs that tests and benchmarks run: suites, random programs, mutants."""
