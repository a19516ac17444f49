"""The operators that run on the host as NumPy functions, by name.

The functions are those of `runtime/numpy_operators`; a test holds the two tables equal.
"""

from __future__ import annotations

_NAMES = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
BatchNormalization Bernoulli BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
BlackmanWindow Cast CastLike CausalConvWithState Ceil Celu CenterCropPad Clip Col2Im Compress Concat
ConcatFromSequence ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT
DeformConv DepthToSpace DequantizeLinear Det Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf
Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool
GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow
HannWindow HardSigmoid HardSwish Hardmax Identity ImageDecoder InstanceNormalization IsInf IsNaN LRN
LSTM LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax LpNormalization
LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization
MelWeightMatrix Min Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero
Not OneHot Optional OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul
QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike
Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence RoiAlign
RotaryEmbedding Round STFT Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct
SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink Sigmoid Sign Sin Sinh Size
Slice Softmax SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt
Squeeze StringConcat StringNormalizer StringSplit Sub Sum SwiGLU Swish Tan Tanh TensorScatter
TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.CategoryMapper
ai.onnx.ml.FeatureVectorizer ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder ai.onnx.ml.LinearClassifier
ai.onnx.ml.LinearRegressor ai.onnx.ml.Normalizer ai.onnx.ml.OneHotEncoder ai.onnx.ml.SVMClassifier
ai.onnx.ml.SVMRegressor ai.onnx.ml.Scaler ai.onnx.ml.TreeEnsemble ai.onnx.ml.TreeEnsembleClassifier
ai.onnx.ml.TreeEnsembleRegressor ai.onnx.preview.training.Adagrad ai.onnx.preview.training.Adam
ai.onnx.preview.training.Momentum
vdla.BlockedAveragePool
vdla.BlockedConv
vdla.BlockedGlobalAveragePool
vdla.BlockedMaxPool
vdla.BlockedQAveragePool
vdla.BlockedQConv
vdla.BlockedQConvTranspose
vdla.BlockedQGlobalAveragePool
vdla.BlockedQMaxPool
vdla.ColumnLanes
vdla.FromBlocked
vdla.PackPatches
vdla.QAdd
vdla.QAveragePool
vdla.QConv
vdla.QConvTranspose
vdla.QDense
vdla.QLeakyRelu
vdla.QMatMul
vdla.QMaxPool
vdla.QMul
vdla.QRescale
vdla.QTable
vdla.RowTerms
vdla.ToBlocked
vdla.ToInt8
vdla.ToUint8
"""
HOST_OPERATORS: frozenset[str] = frozenset(_NAMES.split())
