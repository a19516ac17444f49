"""The adversary: searches for an execution order in which a program fails."""
