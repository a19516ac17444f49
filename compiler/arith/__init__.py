# SPDX-License-Identifier: Apache-2.0
"""Index arithmetic on the IR: linear forms, interval bounds, simplification, evaluation.

Everything here is exact integer arithmetic on int32 index expressions and on conditions over them.
"""

from vdla.compiler.arith.bounds import (
    INT32,
    Range,
    Ranges,
    ambiguous_vars,
    bounds,
    function_ranges,
    last_value,
    linear_bounds,
    loop_ranges,
    scalar_ranges,
)
from vdla.compiler.arith.evaluate import (
    IndexFunction,
    Values,
    evaluate,
    exact_function,
    index_function,
    is_evaluable,
    open_grid,
)
from vdla.compiler.arith.linear import AffineError, Linear, affine, linear, recombine, var_names
from vdla.compiler.arith.simplify import FALSE, TRUE, conjunction, conjuncts, predicate_of, simplify
from vdla.compiler.arith.specialise import SpecialiseError, scalars_of, specialise

__all__ = [
    "FALSE",
    "INT32",
    "TRUE",
    "AffineError",
    "IndexFunction",
    "Linear",
    "Range",
    "Ranges",
    "SpecialiseError",
    "Values",
    "affine",
    "ambiguous_vars",
    "bounds",
    "conjunction",
    "conjuncts",
    "evaluate",
    "exact_function",
    "function_ranges",
    "index_function",
    "is_evaluable",
    "last_value",
    "linear",
    "linear_bounds",
    "loop_ranges",
    "open_grid",
    "predicate_of",
    "recombine",
    "scalar_ranges",
    "scalars_of",
    "simplify",
    "specialise",
    "var_names",
]
