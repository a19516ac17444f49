"""Plain arrays to those of a program and back, by the packing expressions of its form.

Shapes and element types are those of the plain tensors of the definition.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler import te
from vdla.compiler.map.gather import gather
from vdla.compiler.map.packed_expression import result_axes
from vdla.compiler.map.packing import pack_array, unpacked
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.checks import check_array, check_output
from vdla.compiler.operators.vdla.operator import Array, Factors
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import SCALE


def packed_inputs(packed: UntiledForm, **arrays: Array | None) -> dict[str, Array]:
    """The program's inputs of the plain arrays that are given, by name.

    Raises:
        TemplateError: an array has another shape than the plain tensor, or other elements.
    """
    form = packed.form
    sources = {form.parameter(name): operand.source for name, operand in form.operands.items()}
    given = {name: array for name, array in arrays.items() if array is not None}
    checked = {
        name: check_array(name, array, sources[name].shape, sources[name].dtype) for name, array in given.items()
    }
    return {name: pack_array(packed, name, array) for name, array in checked.items()}


def packed_scale(
    packed: UntiledForm,
    results: Results,
    bias: Array | None,
    multiplier: Factors,
    offset: Array,
    counts: Array | int = 1,
) -> dict[str, Array]:
    """The program's scale, none of raw results; arguments are those of `Results.lanes`."""
    lanes = results.lanes(len(offset), bias, multiplier, offset, counts)
    return {} if lanes is None else {str(SCALE): pack_array(packed, SCALE, lanes)}


def plain_output(packed: UntiledForm, outputs: Mapping[str, Array], view: te.Tensor | None = None) -> Array:
    """The plain result, or the elements of it that are those of a `view`, from a run's outputs.

    Raises:
        TemplateError: there is no array of the results' rank.
    """
    return gather(unpacked(packed.form, view), check_output(outputs, len(result_axes(packed.form)[0])))


def zero_point_offset(packed: UntiledForm, weight: Array, zero_point: int) -> Array:
    """What takes the share of the input's zero point out of the sums of each result, int64.

    It has the dimensions of the weights, as the sums read them, over which these do not reduce.
    """
    computation = packed.form.computation
    access = computation.operands[str(computation.held)]
    reduced = [index.axes <= set(computation.reduce) for index in access.forms]
    if zero_point == 0:
        return np.zeros([n for n, inner in zip(access.tensor.shape, reduced, strict=True) if not inner], np.int64)
    read = np.asarray(weight) if access.gather is None else gather(access.tensor, weight)
    return np.asarray(-zero_point * read.sum(axis=tuple(np.flatnonzero(reduced)), dtype=np.int64))
