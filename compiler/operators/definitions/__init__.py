"""Operators as plain tensor expressions in plain layouts, for the mapper.

A definition says what is computed, on arrays as a user has them; nothing in it knows a machine.
"""

from vdla.compiler.operators.definitions.convolution import convolution
from vdla.compiler.operators.definitions.correlation import correlation
from vdla.compiler.operators.definitions.definition import Definition, DefinitionError, requantised
from vdla.compiler.operators.definitions.products import (
    attention_scores,
    attention_values,
    batched_product,
    dense,
    lstm_gates,
    matrix_vector,
)

__all__ = [
    "Definition",
    "DefinitionError",
    "attention_scores",
    "attention_values",
    "batched_product",
    "convolution",
    "correlation",
    "dense",
    "lstm_gates",
    "matrix_vector",
    "requantised",
]
