"""The verifier: deadlocks, races, bounds and encoding of a program. Needs NumPy only."""
