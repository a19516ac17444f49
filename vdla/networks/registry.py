# SPDX-License-Identifier: Apache-2.0
"""`NETWORKS`: every network by name, with a variant for tests and what its input looks like.

`GALLERY` has others, each for an instruction of the gallery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator, default_rng

from vdla.networks.binary_resnet import binary_resnet18
from vdla.networks.dcgan import dcgan_generator
from vdla.networks.decoder import docstrings, llama3_8b_layer, smollm2_135m, stories15m
from vdla.networks.deep_q_network import deep_q_network
from vdla.networks.digits import digits, some_digits
from vdla.networks.gallery import (
    blocks_of_fifteen,
    codebook,
    faces,
    four_bits,
    perceptron,
    signs,
    sound,
    swishes,
    tokens,
    two_of_four,
)
from vdla.networks.lstm_language_model import lstm_language_model
from vdla.networks.mlperf_tiny import autoencoder, ds_cnn, mobilenet_vww, resnet8
from vdla.networks.mobilenet import mobilenet_v1, mobilenet_v2, mobilenet_v3
from vdla.networks.resnet import resnet18, resnet50
from vdla.networks.vision_transformer import vit_small
from vdla.networks.yolo import yolo_v8n
from vdla.support.arrays import Array, Ints
from vdla.support.errors import Error
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from onnx import ModelProto

Arrays = dict[str, Array]
Sampler = Callable[[Generator, tuple[int, ...]], Array]


class NetworkError(Error, ValueError):
    """An unknown name of a network, or a package that building one needs."""


def normal(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Normally distributed values, as of images whose mean and spread were normalised."""
    return rng.standard_normal(shape, np.float32)


def unit(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Uniformly distributed values from 0 to 1."""
    return rng.random(shape, np.float32)


@dataclass(frozen=True, slots=True)
class Network:
    """A network: `build(batch=..., ..., seed=0)` makes its model; `small` are parameters for tests.

    `title` names it and the size of its images; `sample` draws an input.
    """

    name: str
    title: str
    build: Callable[..., ModelProto]
    small: Mapping[str, Any] = field(default_factory=dict)
    sample: Sampler = normal

    def inputs(self, model: ModelProto, batch: int = 1, seed: int = 0) -> Arrays:
        """Random inputs by name; `batch` replaces a symbolic one."""
        from onnx import helper

        rng = default_rng([seed, *self.name.encode()])
        arrays = {}
        for info in model.graph.input:
            tensor = info.type.tensor_type
            shape = tuple(batch if extent.dim_param else extent.dim_value for extent in tensor.shape.dim)
            is_integer = helper.tensor_dtype_to_np_dtype(tensor.elem_type).kind == "i"
            arrays[info.name] = _tokens(model, rng, shape) if is_integer else self.sample(rng, shape)
        return arrays


def _tokens(model: ModelProto, rng: Generator, shape: tuple[int, ...]) -> Ints:
    """Uniformly distributed rows of the embedding."""
    rows = next(tensor.dims[0] for tensor in model.graph.initializer if tensor.name == "embedding.weight")
    return rng.integers(0, rows, shape)


_ALL = (
    Network(
        "resnet18",
        "ResNet-18, 224x224",
        resnet18,
        {"image": 32, "width": 16, "classes": 10},
    ),
    Network(
        "resnet50",
        "ResNet-50, 224x224",
        resnet50,
        {"image": 32, "width": 8, "blocks": (1, 2, 1, 1), "classes": 10},
    ),
    Network(
        "mobilenet_v1",
        "MobileNet v1, 224x224",
        mobilenet_v1,
        {"image": 32, "width": 0.25, "depth": 6, "classes": 10},
    ),
    Network(
        "mobilenet_v2",
        "MobileNet v2, 224x224",
        mobilenet_v2,
        {"image": 32, "width": 0.25, "depth": 4, "classes": 10},
    ),
    Network(
        "mobilenet_v3",
        "MobileNet v3, large, 224x224",
        mobilenet_v3,
        {"image": 32, "width": 0.25, "depth": 3, "classes": 10},
    ),
    Network(
        "yolo_v8n",
        "shape of YOLOv8n, 640x640",
        yolo_v8n,
        {"image": 64, "width": 0.5, "classes": 5},
    ),
    Network(
        "lstm_language_model",
        "LSTM language model, 35 steps",
        lstm_language_model,
        {"steps": 5, "words": 50, "hidden": 16},
    ),
    Network(
        "deep_q_network",
        "deep Q network, 84x84",
        deep_q_network,
        {"width": 0.25, "actions": 6, "image": 44},
        unit,
    ),
    Network(
        "dcgan_generator",
        "generator of DCGAN, 64x64",
        dcgan_generator,
        {"noise": 16, "width": 8, "doublings": 3},
    ),
    Network(
        "vit_small",
        "ViT-S/16, 224x224",
        vit_small,
        {"image": 32, "patch": 8, "width": 32, "depth": 2, "heads": 4, "classes": 10},
    ),
    Network(
        "ds_cnn",
        "keyword spotting, 49x10",
        ds_cnn,
        {"width": 16, "depth": 2},
    ),
    Network(
        "mobilenet_vww",
        "visual wake words, 96x96",
        mobilenet_vww,
        {"image": 32, "depth": 4},
    ),
    Network(
        "resnet8",
        "image classification, 32x32",
        resnet8,
        {"image": 16, "stages": 2},
    ),
    Network(
        "autoencoder",
        "anomaly detection, 640 features",
        autoencoder,
        {"inputs": 64, "width": 64, "latent": 32, "depth": 1},
    ),
    Network(
        "digits",
        "handwritten digits, 8x8, trained",
        digits,
        sample=some_digits,
    ),
)
NETWORKS: Mapping[str, Network] = {network.name: network for network in _ALL}
"""The networks in the order of the documentation."""

_BINARY = partial(perceptron, features=(512, 1024, 1024, 16), weights=signs, activation="Sign")
_FLOATING = partial(perceptron, features=(480, 960, 960, 15), weights=blocks_of_fifteen)
_GALLERY = (
    Network("sign_perceptron", "perceptron, weights +1 and -1", partial(perceptron, weights=signs)),
    Network("binary_perceptron", "perceptron of +1 and -1", _BINARY),
    Network(
        "binary_resnet18",
        "ResNet-18, +1 and -1, 224x224",
        binary_resnet18,
        {"image": 32, "width": 16, "blocks": (1, 1, 1, 1), "classes": 10},
    ),
    Network("four_bit_perceptron", "perceptron, weights of 4 bits", partial(perceptron, weights=four_bits)),
    Network("sparse_perceptron", "perceptron, 2:4 sparse weights", partial(perceptron, weights=two_of_four)),
    Network("block_perceptron", "perceptron, block floating point", _FLOATING),
    Network("sound", "convolutions of 1024 samples", sound),
    Network("swishes", "hard-swish, 16x16", swishes),
    Network("tokens", "attention, RMSNorm, argmax", tokens),
    Network("codebook", "the nearest of 512 codes", codebook),
    Network("faces", "PReLU of channels, 28x28", faces),
)
GALLERY: Mapping[str, Network] = {network.name: network for network in _GALLERY}
"""Networks with the operators that the gallery's instructions are for, most of them small."""
_DECODERS = (
    Network("docstrings", "documentation strings, trained", docstrings),
    Network("stories15m", "shape of stories15M", stories15m),
    Network("smollm2_135m", "shape of SmolLM2-135M", smollm2_135m),
    Network("llama3_8b_layer", "one layer of the shape of Llama 3 8B", llama3_8b_layer),
)
DECODERS: Mapping[str, Network] = {network.name: network for network in _DECODERS}
"""Decoders of language models, for `vdla generate`; sequences and caches are symbolic."""
KNOWN: Mapping[str, Network] = {**NETWORKS, **GALLERY, **DECODERS}


def network(name: str) -> Network:
    """A network by name."""
    if name not in KNOWN:
        raise NetworkError(f"network: name must be one of {', '.join(KNOWN)}, got {name}{did_you_mean(name, KNOWN)}")
    return KNOWN[name]
