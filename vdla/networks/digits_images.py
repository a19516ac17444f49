# SPDX-License-Identifier: Apache-2.0
"""The 1,797 handwritten digits of scikit-learn's `load_digits`, with a fixed held-out third.

They are the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998,
https://doi.org/10.24432/C50P49), UCI Machine Learning Repository, licence CC BY 4.0: 8x8 pixels
that count the black ones of 4x4 pixels, 0 to 16. `digits_images.npz` holds images and labels in
scikit-learn's order, unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import NDArray

from vdla.support.arrays import Array, Ints

CLASSES = 10
SIZE = 8
LARGEST = 16
HELD_OUT = 600
_SPLIT_SEED = 1998


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """`images` float32 [N, 1, 8, 8] from 0 to 1; `labels` int64 [N] from 0 to 9."""

    images: NDArray[np.float32]
    labels: Ints

    def top1(self, logits: Array) -> float:
        """The share of images whose largest logit is that of their label."""
        return float((logits.argmax(axis=1) == self.labels).mean())


def training_digits() -> LabelledImages:
    """The 1,197 images to train and calibrate with."""
    return _part(slice(HELD_OUT, None))


def held_out_digits() -> LabelledImages:
    """The 600 images that neither training nor calibration may see."""
    return _part(slice(0, HELD_OUT))


def load_arrays(name: str) -> dict[str, Array]:
    """The arrays of an .npz file of this folder."""
    with as_file(files("vdla.networks").joinpath(name)) as path, np.load(path) as stored:
        return {key: stored[key] for key in stored.files}


def _part(rows: slice) -> LabelledImages:
    stored = load_arrays("digits_images.npz")
    chosen = np.random.default_rng(_SPLIT_SEED).permutation(len(stored["labels"]))[rows]
    pixels = stored["images"][chosen, None].astype(np.float32) / np.float32(LARGEST)
    return LabelledImages(pixels, stored["labels"][chosen].astype(np.int64))
