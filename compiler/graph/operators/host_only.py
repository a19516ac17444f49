"""Operators without a tensor expression: functions of NumPy, opaque to fusion.

The functions are those of `runtime/numpy_operators`; a test holds the two tables equal.
"""

from __future__ import annotations

from vdla.compiler.graph.operators.record import OperatorRecord, Trait

_NAMES = """
AffineGrid BitCast BlackmanWindow Compress ConcatFromSequence ConstantOfShape DFT DeformConv Det HammingWindow
HannWindow ImageDecoder MaxRoiPool MaxUnpool MelWeightMatrix NegativeLogLikelihoodLoss NonMaxSuppression NonZero
Optional OptionalGetElement OptionalHasElement Range RegexFullMatch RoiAlign STFT Scatter ScatterElements ScatterND
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Size
SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit TfIdfVectorizer TopK Unique
ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.CategoryMapper ai.onnx.ml.FeatureVectorizer
ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor
ai.onnx.ml.Normalizer ai.onnx.ml.OneHotEncoder ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor ai.onnx.ml.Scaler
ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor
ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum
"""
_RANDOM = "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"

HOST_ONLY = (
    *(OperatorRecord(name=name) for name in _NAMES.split()),
    *(OperatorRecord(name=name, traits=Trait.RANDOM) for name in _RANDOM.split()),
)
