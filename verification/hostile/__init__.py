"""Mutated files: every one is read, or refused with an error of the toolkit."""
