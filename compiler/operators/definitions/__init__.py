# SPDX-License-Identifier: Apache-2.0
"""Operators as plain tensor expressions in plain layouts, for the mapper.

A definition is independent of machines: it says what is computed, on arrays in the user's layout.
"""

from vdla.compiler.operators.definitions.definition import Definition, DefinitionError, requantised, requantised_by
from vdla.compiler.operators.definitions.element_wise import (
    extremum,
    leaky_relu,
    look_up,
    prelu,
    rescaling,
    residual_addition,
    scaling,
)
from vdla.compiler.operators.definitions.products import (
    attention_scores,
    attention_values,
    batched_product,
    correlation,
    dense,
    lstm_gates,
    matrix_vector,
)
from vdla.compiler.operators.definitions.rotary import rotary
from vdla.compiler.operators.definitions.row_norm import row_norm
from vdla.compiler.operators.definitions.row_softmax import row_softmax, softmax_factor
from vdla.compiler.operators.definitions.rows import PLACES, distances, row_reduction, second_factor
from vdla.compiler.operators.definitions.transposed import transposed_convolution
from vdla.compiler.operators.definitions.windows import convolution, depthwise_convolution, of_workload, pooling

__all__ = [
    "PLACES",
    "Definition",
    "DefinitionError",
    "attention_scores",
    "attention_values",
    "batched_product",
    "convolution",
    "correlation",
    "dense",
    "depthwise_convolution",
    "distances",
    "extremum",
    "leaky_relu",
    "look_up",
    "lstm_gates",
    "matrix_vector",
    "of_workload",
    "pooling",
    "prelu",
    "requantised",
    "requantised_by",
    "rescaling",
    "residual_addition",
    "rotary",
    "row_norm",
    "row_reduction",
    "row_softmax",
    "scaling",
    "second_factor",
    "softmax_factor",
    "transposed_convolution",
]
