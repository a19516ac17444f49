# SPDX-License-Identifier: Apache-2.0
"""Operators without a tensor expression: functions of NumPy, opaque to fusion.

The functions are those of `runtime/numpy_operators`; a test holds the two tables equal.
"""

from __future__ import annotations

from vdla.compiler.graph.operators.record import OperatorRecord, Trait

_NAMES = """
AffineGrid BitCast BlackmanWindow Compress ConcatFromSequence ConstantOfShape DFT DeformConv Det HammingWindow
HannWindow ImageDecoder MaxRoiPool MaxUnpool MelWeightMatrix NegativeLogLikelihoodLoss NonMaxSuppression NonZero
Optional OptionalGetElement OptionalHasElement Range RegexFullMatch RoiAlign STFT Scatter ScatterElements
ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Size
SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit TfIdfVectorizer Unique
ai.onnx.ml.CategoryMapper ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam
ai.onnx.preview.training.Momentum
"""
_TABULAR = """
ArrayFeatureExtractor Binarizer FeatureVectorizer Imputer LabelEncoder LinearClassifier LinearRegressor
Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier
TreeEnsembleRegressor
"""
_RANDOM = "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"

HOST_ONLY = (
    *(OperatorRecord(name=name) for name in _NAMES.split()),
    *(OperatorRecord(name=f"ai.onnx.ml.{name}", traits=Trait.TABULAR) for name in _TABULAR.split()),
    *(OperatorRecord(name=name, traits=Trait.RANDOM) for name in _RANDOM.split()),
)
