"""The operators that run on the host as NumPy functions, by name.

The functions are those of `runtime/numpy_operators`; a test holds the two tables equal.
"""

from __future__ import annotations

HOST_OPERATORS: frozenset[str] = frozenset(
    {
        "ConcatFromSequence",
        "Identity",
        "Optional",
        "OptionalGetElement",
        "OptionalHasElement",
        "SequenceAt",
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceErase",
        "SequenceInsert",
        "SequenceLength",
        "SplitToSequence",
    }
)
