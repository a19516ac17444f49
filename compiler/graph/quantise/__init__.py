# SPDX-License-Identifier: Apache-2.0
"""Quantisation of float graphs: statistics, ranges, parameters, and the QDQ graph made of them.

`plan_quantisation` says which values need statistics; `quantise_graph` makes the QDQ graph.
`runtime/network` runs the network on calibration data.
"""

from vdla.compiler.graph.quantise.equalise import equalise
from vdla.compiler.graph.quantise.groups import GROUP
from vdla.compiler.graph.quantise.insert import QuantisedParameters, insert_qdq
from vdla.compiler.graph.quantise.parameters import ActivationParameters, WeightParameters, activation_parameters
from vdla.compiler.graph.quantise.parts import LEAST_DB
from vdla.compiler.graph.quantise.plan import QuantisationPlan, QuantisedLayer, plan_quantisation
from vdla.compiler.graph.quantise.quantise_graph import choose_parameters, separate_parts, value_statistics
from vdla.compiler.graph.quantise.ranges import METHODS
from vdla.compiler.graph.quantise.scores import why_no_scores, with_score_scales, with_scores
from vdla.compiler.graph.quantise.statistics import QuantiseError, QuantiseWarning, ValueStatistics, check_finite

__all__ = [
    "GROUP",
    "LEAST_DB",
    "METHODS",
    "ActivationParameters",
    "QuantisationPlan",
    "QuantiseError",
    "QuantiseWarning",
    "QuantisedLayer",
    "QuantisedParameters",
    "ValueStatistics",
    "WeightParameters",
    "activation_parameters",
    "check_finite",
    "choose_parameters",
    "equalise",
    "insert_qdq",
    "plan_quantisation",
    "separate_parts",
    "value_statistics",
    "why_no_scores",
    "with_score_scales",
    "with_scores",
]
