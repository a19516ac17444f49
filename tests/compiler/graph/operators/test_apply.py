# SPDX-License-Identifier: Apache-2.0
"""Rules applied to nodes: results checked against types, reasons of nodes that are declined."""

import re

import numpy as np
import pytest
from helpers.graph_node import call_of, run_rule

from vdla.compiler.graph.operators import RECORDS, expressions
from vdla.compiler.graph.rules import DeclinedError

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
ONE = np.array(2, np.float32)


def test_the_table_has_every_rule_under_its_name():
    assert all(op == record.name for op, record in RECORDS.items())


def test_scalars_are_tensors_of_one_element():
    (got,) = run_rule("Mul", {}, [ROWS, ONE], [ROWS])
    np.testing.assert_array_equal(got, ROWS * 2)
    (got,) = run_rule("ReduceSum", {"keepdims": 0}, [ROWS], [ONE])
    assert got == ROWS.sum()


@pytest.mark.parametrize(
    ("op", "attributes", "outputs", "reason"),
    [
        ("Nothing", {}, [ROWS], "Nothing y0: the operator must have a tensor expression, got Nothing"),
        ("Relu", {}, [ROWS.T], "Relu y0: y0 must be float32[3, 2] as the model says, got float32[2, 3]"),
        ("Relu", {}, [ROWS.astype(np.int8)], "Relu y0: y0 must be int8[2, 3] as the model says, got float32[2, 3]"),
        ("ReduceSum", {}, [ROWS], "ReduceSum y0: the node must have constant axes"),
        (
            "Softmax",
            {"axis": 2},
            [ROWS],
            "Softmax y0: softmax: axis must be in -2..1, got 2",
        ),
    ],
)
def test_declined_nodes(op, attributes, outputs, reason):
    inputs = [ROWS, np.array([0])] if op == "ReduceSum" else [ROWS]
    with pytest.raises(DeclinedError, match=f"^{re.escape(reason)}$"):
        expressions(call_of(op, attributes, inputs, outputs))
