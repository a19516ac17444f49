# SPDX-License-Identifier: Apache-2.0
"""Writes tensorflow.zip: layers of Keras and functions of TensorFlow through tf2onnx.

pip install "tensorflow-cpu<2.20" tf2onnx onnxruntime
PYTHONPATH=. python tests/zoo/export_tensorflow.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs

Function = Callable[..., object]
Shapes = tuple[tuple[int, ...], ...]
OPSETS = (13, 15, 17, 18)


def chain(*parts: Function) -> Function:
    """Layers one after the other."""

    def apply(x: object) -> object:
        for part in parts:
            x = part(x)
        return x

    return apply


def convolution(filters: int, kernel: int = 3, strides: int = 1, act: str = "relu", **options: object) -> Function:
    """A convolution, its batch norm and its activation."""
    inner = layers.Conv2D(filters, kernel, strides, padding="same", use_bias=False, **options)
    return chain(inner, layers.BatchNormalization(), layers.Activation(act))


def depthwise(filters: int, strides: int = 1, act: str = "relu6") -> Function:
    inner = (layers.DepthwiseConv2D(3, strides, padding="same", use_bias=False), layers.BatchNormalization())
    return chain(*inner, layers.Activation(act), convolution(filters, 1, act=act))


def residual(filters: int) -> Function:
    body = chain(convolution(filters), layers.Conv2D(filters, 3, padding="same"), layers.BatchNormalization())
    return lambda x: layers.ReLU()(layers.Add()([body(x), x]))


def inverted(filters: int, act: str) -> Function:
    parts = (
        convolution(4 * filters, 1, act=act),
        layers.DepthwiseConv2D(3, padding="same"),
        layers.BatchNormalization(),
    )
    narrow = (layers.Activation(act), layers.Conv2D(filters, 1, use_bias=False), layers.BatchNormalization())
    body = chain(*parts, *narrow)
    return lambda x: layers.Add()([x, body(x)])


def excited(channels: int) -> Function:
    down, up = layers.Dense(channels // 4, "relu"), layers.Dense(channels, "sigmoid")

    def apply(x: object) -> object:
        gate = up(down(layers.GlobalAveragePooling2D()(x)))
        return layers.Multiply()([x, layers.Reshape((1, 1, channels))(gate)])

    return apply


def dense_block(x: object) -> object:
    for _ in range(3):
        x = layers.Concatenate()([x, convolution(8)(x)])
    return x


def unet(x: object) -> object:
    first = convolution(8)(x)
    deep = convolution(16)(layers.MaxPooling2D()(first))
    up = layers.Conv2DTranspose(8, 2, 2, padding="same")(deep)
    return layers.Conv2D(2, 1)(layers.Concatenate()([up, first]))


def encoder(width: int) -> Function:
    attention, norm, second = (
        layers.MultiHeadAttention(4, width // 4),
        layers.LayerNormalization(),
        layers.LayerNormalization(),
    )
    wide, narrow = layers.Dense(2 * width, "relu"), layers.Dense(width)

    def apply(x: object) -> object:
        inner = norm(x)
        x = layers.Add()([x, attention(inner, inner)])
        return layers.Add()([x, narrow(wide(second(x)))])

    return apply


def classifier(*parts: Function) -> Function:
    return chain(*parts, layers.GlobalAveragePooling2D(), layers.Dense(10, "softmax"))


IMAGE, WIDE, SERIES, TOKENS, VECTOR = (16, 16, 3), (8, 8, 16), (20, 8), (10, 32), (16,)


def keras_models() -> Iterator[tuple[str, Function, tuple[int, ...]]]:
    """Name, layers, shape of the input without the batch."""
    yield from (
        ("convnet", classifier(convolution(16), layers.MaxPooling2D(), convolution(32)), IMAGE),
        ("convnet_strided", classifier(convolution(16, strides=2), convolution(32, strides=2)), IMAGE),
        ("convnet_swish", classifier(convolution(16, act="swish"), convolution(16, act="swish")), IMAGE),
        ("convnet_hard_swish", classifier(convolution(16, act="hard_silu")), IMAGE),
        ("convnet_elu", classifier(convolution(16, act="elu"), convolution(16, act="selu")), IMAGE),
        ("convnet_leaky", classifier(convolution(16, act="leaky_relu")), IMAGE),
        ("convnet_prelu", chain(layers.Conv2D(8, 3), layers.PReLU(shared_axes=[1, 2])), IMAGE),
        ("mobilenet_v1", classifier(convolution(8, strides=2), depthwise(16), depthwise(32, 2)), IMAGE),
        ("mobilenet_v2", inverted(16, "relu6"), WIDE),
        ("mobilenet_v3", chain(inverted(16, "hard_silu"), excited(16)), WIDE),
        ("resnet", classifier(convolution(16), residual(16)), IMAGE),
        ("densenet", dense_block, WIDE),
        ("unet", unet, IMAGE),
        ("dilated", convolution(8, dilation_rate=2), WIDE),
        ("separable", layers.SeparableConv2D(16, 3, padding="same"), WIDE),
        ("transpose", layers.Conv2DTranspose(8, 4, 2, padding="same"), WIDE),
        ("upsampling_nearest", chain(layers.UpSampling2D(2), layers.Conv2D(4, 3)), WIDE),
        ("upsampling_bilinear", chain(layers.UpSampling2D(2, interpolation="bilinear"), layers.Conv2D(4, 3)), WIDE),
        ("average_pool", layers.AveragePooling2D(3, 2, padding="same"), WIDE),
        ("pad_crop", chain(layers.ZeroPadding2D(2), layers.Conv2D(8, 3), layers.Cropping2D(1)), WIDE),
        ("flatten_dense", chain(layers.Flatten(), layers.Dense(16, "relu"), layers.Dense(4)), WIDE),
        (
            "lenet",
            chain(
                layers.Conv2D(6, 5, activation="tanh"), layers.AveragePooling2D(2), layers.Flatten(), layers.Dense(10)
            ),
            IMAGE,
        ),
        ("group_norm", layers.GroupNormalization(4), WIDE),
        ("layer_norm", layers.LayerNormalization(), TOKENS),
        ("encoder", encoder(32), TOKENS),
        (
            "keywords",
            chain(
                layers.Conv1D(16, 3, padding="same", activation="relu"), layers.GlobalMaxPooling1D(), layers.Dense(4)
            ),
            SERIES,
        ),
        ("temporal", chain(layers.Conv1D(16, 3, padding="causal", dilation_rate=2), layers.ReLU()), SERIES),
        ("lstm", chain(layers.LSTM(12), layers.Dense(4)), SERIES),
        ("lstm_sequences", layers.LSTM(12, return_sequences=True), SERIES),
        ("lstm_bidirectional", layers.Bidirectional(layers.LSTM(8)), SERIES),
        ("gru", layers.GRU(12), SERIES),
        ("simple_rnn", layers.SimpleRNN(12), SERIES),
        ("autoencoder", chain(*(layers.Dense(width, "relu") for width in (8, 4, 8)), layers.Dense(16)), VECTOR),
        ("perceptron_sigmoid", chain(layers.Dense(16, "sigmoid"), layers.Dense(4, "softplus")), VECTOR),
    )


def functions() -> Iterator[tuple[str, Function, Shapes]]:
    """Functions of TensorFlow: name, function, shapes of the inputs."""
    image, pair = (1, 8, 8, 4), ((1, 6, 8), (1, 6, 8))
    yield from (
        ("resize_bilinear", lambda x: tf.image.resize(x, (12, 20)), (image,)),
        ("resize_nearest", lambda x: tf.image.resize(x, (16, 4), "nearest"), (image,)),
        ("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), (image,)),
        ("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), (image,)),
        ("mirror_pad", lambda x: tf.pad(x, ((0, 0), (1, 1), (2, 2), (0, 0)), "REFLECT"), (image,)),
        ("strided_slice", lambda x: x[:, ::2, 1:-1, None, ::-1], (image,)),
        ("matmul_transposed", lambda x, y: tf.matmul(x, y, transpose_b=True), pair),
        ("einsum", lambda x, y: tf.einsum("bij,bkj->bik", x, y), pair),
        ("top_k", lambda x: tf.math.top_k(x, 3), ((2, 9),)),
        ("gather", lambda x: tf.gather(x, [3, 0, 0], axis=1), ((2, 5),)),
        ("cumulative_sum", lambda x: tf.cumsum(x, 1, exclusive=True, reverse=True), ((2, 5),)),
        ("split_stack", lambda x: tf.stack(tf.split(x, 2, -1), 1), ((2, 6),)),
        ("arg_max", lambda x: tf.argmax(x, -1), ((2, 6),)),
        ("lrn", lambda x: tf.nn.local_response_normalization(x, 2), (image,)),
        ("where", lambda x, y: tf.where(x > y, x, tf.math.squared_difference(x, y)), pair),
    )


def traced() -> Iterator[tuple[str, str, Function, Shapes]]:
    """Name, exporter, function and shapes of all models."""
    for name, build, shape in keras_models():
        x = keras.Input(shape)
        model = keras.Model(x, build(x))
        for weight in model.weights:
            if weight.path.endswith(("moving_mean", "beta", "bias", "alpha")):
                weight.assign(np.random.default_rng(1).normal(0, 0.1, weight.shape))
            if weight.path.endswith(("moving_variance", "gamma")):
                weight.assign(np.random.default_rng(2).uniform(0.5, 1.5, weight.shape))
        yield f"keras_{name}", f"keras {keras.__version__}", model, ((1, *shape),)
    for name, function, shapes in functions():
        yield f"tensorflow_{name}", f"tensorflow {tf.__version__}", function, shapes


def main() -> None:
    keras.utils.set_random_seed(0)
    writer = Writer(FOLDER / "tensorflow.zip")
    for index, (name, source, function, shapes) in enumerate(traced()):
        opset = OPSETS[index % len(OPSETS)]
        inputs = tuple(Input(f"x{place}", "float32", shape) for place, shape in enumerate(shapes))
        entry = Entry(name, "network", f"tf2onnx {tf2onnx.__version__}, {source}", opset, inputs)
        with writer.attempt(name):
            signature = [tf.TensorSpec(item.shape, tf.float32, item.name) for item in inputs]

            def call(*x: tf.Tensor, function: Function = function) -> object:
                return tf.nest.map_structure(tf.identity, tf.nest.flatten(function(*x)))

            proto, _ = tf2onnx.convert.from_function(tf.function(call), input_signature=signature, opset=opset)
            content, fed = proto.SerializeToString(), entry.draw()
            outputs = onnxruntime_outputs(content, fed)
            expected = tf.nest.flatten(function(*map(tf.constant, fed.values())))
            for output, right in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output, right, rtol=1e-3, atol=1e-3)
            writer.add(entry, content, outputs)
    print(writer.write())


if __name__ == "__main__":
    main()
