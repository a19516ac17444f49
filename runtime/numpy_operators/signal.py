# SPDX-License-Identifier: Apache-2.0
"""Windows, Fourier transforms, mel weights, images. Complex numbers are a last axis of 2."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO

import numpy as np

from vdla.runtime.numpy_operators.dtypes import numpy_dtype
from vdla.runtime.numpy_operators.function import Array, Attributes, Function


def _window(*coefficients: float) -> Function:
    """A sum of cosines: a0 - a1 cos(x) + a2 cos(2 x)."""

    def operator(attributes: Attributes, size: Array) -> tuple[Array]:
        count = size.item()
        period = count if attributes.get("periodic", 1) else count - 1
        angle = 2 * np.pi * np.arange(count) / period
        values = sum((-1) ** n * a * np.cos(n * angle) for n, a in enumerate(coefficients))
        return (np.asarray(values).astype(numpy_dtype(attributes.get("output_datatype") or "float32")),)

    return operator


def _complex(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def _pairs(x: Array, dtype: np.dtype[np.float64]) -> Array:
    return np.stack([x.real, x.imag], -1).astype(dtype)


def _dft(attributes: Attributes, x: Array, length: Array | None = None, axis: Array | None = None) -> tuple[Array]:
    """Of a real or complex signal along an axis; one-sided ones keep half of the spectrum."""
    along = (-2 if axis is None else int(axis.item())) % x.ndim
    inverse, half = attributes.get("inverse", 0), attributes.get("onesided", 0)
    signal = _complex(x)
    if not x.size:
        points = 2 * (x.shape[along] - 1) if inverse and half else x.shape[along]
        points = points if length is None else int(length.item())
        bins, last = points // 2 + 1 if half and not inverse else points, 1 if inverse and half else 2
        return (np.zeros((*x.shape[:along], bins, *x.shape[along + 1 : -1], last), x.dtype),)
    count = None if length is None else int(length.item())
    if inverse and half:
        return (np.fft.irfft(signal, count, along)[..., None].astype(x.dtype),)
    if inverse:
        return (_pairs(np.fft.ifft(signal, count, along), x.dtype),)
    transform = np.fft.rfft if half else np.fft.fft
    return (_pairs(transform(signal.real if half else signal, count, along), x.dtype),)


def _stft(
    attributes: Attributes, x: Array, step: Array, window: Array | None = None, length: Array | None = None
) -> tuple[Array]:
    """[batch, frames, bins, 2]: the transform of each frame."""
    signal = _complex(x) if x.ndim > 2 else x
    size = length.item() if length is not None else signal.shape[1] if window is None else len(window)
    hop = step.item()
    starts = np.arange((signal.shape[1] - size) // hop + 1) * hop
    frames = signal[:, starts[:, None] + np.arange(size)]
    frames = frames if window is None else frames * window
    half = attributes.get("onesided", 1) and not np.iscomplexobj(frames)
    return (_pairs((np.fft.rfft if half else np.fft.fft)(frames, axis=2), x.dtype),)


def _mel_weights(
    attributes: Attributes, bands: Array, length: Array, rate: Array, low: Array, high: Array
) -> tuple[Array]:
    """[bins, bands]: triangles between neighbours of `bands` + 2 mel frequencies.

    The frequencies begin at the lower edge; the upper edge lies one step behind the last.
    """
    count, bins = bands.item(), length.item() // 2 + 1
    ends = 2595 * np.log10(1 + np.array([low.item(), high.item()]) / 700)
    mels = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    edges = np.floor((length.item() + 1) * 700 * (10 ** (mels / 2595) - 1) / rate.item()).astype(np.int64)
    place = np.arange(bins)[:, None]
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising = (place - lower) / np.where(centre > lower, centre - lower, 1)
    falling = (upper - place) / np.where(upper > centre, upper - centre, 1)
    weights = np.where(place < centre, rising, falling)
    inside = (place >= lower) & (place < upper)
    weights = np.where(place == centre, 1, np.where(inside, weights, 0))
    return (weights.astype(numpy_dtype(attributes.get("output_datatype") or "float32")),)


SIGNAL: Mapping[str, Function] = {
    "BlackmanWindow": _window(0.42, 0.5, 0.08),
    "DFT": _dft,
    "HammingWindow": _window(25 / 46, 21 / 46),
    "HannWindow": _window(0.5, 0.5),
    "MelWeightMatrix": _mel_weights,
    "STFT": _stft,
}


# --- images, by the package Pillow ----------------------------------------------------------------


def _decode(attributes: Attributes, data: Array) -> tuple[Array]:
    """[height, width, channels] of uint8."""
    try:
        pillow = import_module("PIL.Image")
    except ImportError:
        raise ValueError("the package Pillow must be installed to decode images; pip install pillow") from None
    image = pillow.open(BytesIO(data.tobytes()))
    match attributes.get("pixel_format", "RGB"):
        case "Grayscale":
            return (np.asarray(image.convert("L"))[..., None],)
        case "BGR":
            return (np.ascontiguousarray(np.asarray(image.convert("RGB"))[..., ::-1]),)
    return (np.asarray(image.convert("RGB")),)


IMAGES: Mapping[str, Function] = {"ImageDecoder": _decode}
