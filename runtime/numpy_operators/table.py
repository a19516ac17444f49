# SPDX-License-Identifier: Apache-2.0
"""All functions by the name of their operator."""

from __future__ import annotations

from collections.abc import Mapping

from vdla.runtime.numpy_operators.attention import ATTENTION
from vdla.runtime.numpy_operators.blocked import REPACK
from vdla.runtime.numpy_operators.casts import CASTS, QUANTISED
from vdla.runtime.numpy_operators.control_flow import SEQUENCES
from vdla.runtime.numpy_operators.convolutions import CONVOLUTIONS
from vdla.runtime.numpy_operators.elementwise import BROADCAST, ELEMENTWISE
from vdla.runtime.numpy_operators.function import Function
from vdla.runtime.numpy_operators.indexing import INDEXING, SELECTION
from vdla.runtime.numpy_operators.integer import INTEGER
from vdla.runtime.numpy_operators.ml_features import ML_FEATURES
from vdla.runtime.numpy_operators.ml_models import ML_MODELS
from vdla.runtime.numpy_operators.ml_trees import ML_TREES
from vdla.runtime.numpy_operators.movement import MOVEMENT, SHAPES
from vdla.runtime.numpy_operators.normalisations import NORMALISATIONS
from vdla.runtime.numpy_operators.pools import POOLS
from vdla.runtime.numpy_operators.random_values import RANDOM
from vdla.runtime.numpy_operators.recurrent import RECURRENT
from vdla.runtime.numpy_operators.reductions import PRODUCTS, REDUCTIONS
from vdla.runtime.numpy_operators.resize import RESIZE
from vdla.runtime.numpy_operators.sampling import SAMPLING
from vdla.runtime.numpy_operators.signal import IMAGES, SIGNAL
from vdla.runtime.numpy_operators.strings import STRINGS
from vdla.runtime.numpy_operators.training import LOSSES, TRAINING

FUNCTIONS: Mapping[str, Function] = {
    **ATTENTION,
    **BROADCAST,
    **CASTS,
    **CONVOLUTIONS,
    **ELEMENTWISE,
    **IMAGES,
    **INDEXING,
    **INTEGER,
    **LOSSES,
    **ML_FEATURES,
    **ML_MODELS,
    **ML_TREES,
    **MOVEMENT,
    **NORMALISATIONS,
    **POOLS,
    **PRODUCTS,
    **QUANTISED,
    **RANDOM,
    **RECURRENT,
    **REDUCTIONS,
    **REPACK,
    **RESIZE,
    **SAMPLING,
    **SELECTION,
    **SEQUENCES,
    **SHAPES,
    **SIGNAL,
    **STRINGS,
    **TRAINING,
}
