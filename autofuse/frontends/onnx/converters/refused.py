"""Unsupported ops with the reason; the exclusions of the test suite use the same words."""

from __future__ import annotations

__all__ = ["CUBE", "RANDOM", "REFUSED"]

CUBE = "matrix multiplication or convolution: work of the cube unit"
RANDOM = "random numbers"
_REASONS = {
    CUBE: """
        Attention CausalConvWithState Conv ConvInteger ConvTranspose DeformConv Det FlexAttention Gemm
        LinearAttention MatMul MatMulInteger QLinearConv QLinearMatMul""",
    "a sliding window: pooling": "AveragePool Col2Im GlobalLpPool LpPool MaxPool MaxRoiPool MaxUnpool RoiAlign",
    "interpolation of images": "AffineGrid GridSample ImageDecoder Resize Upsample",
    "a recurrent network": "GRU LSTM RNN",
    "a Fourier transform or spectrum": "DFT MelWeightMatrix STFT",
    "control flow": "If Loop Scan SequenceMap",
    "sequences": """
        ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength
        SplitToSequence""",
    "optional values": "Optional OptionalGetElement OptionalHasElement",
    "strings": "LabelEncoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    "the shape of the result depends on the data": "Compress NonMaxSuppression NonZero Unique",
    "sorting": "TopK",
    "scattered writes": "Scatter ScatterElements ScatterND TensorScatter",
    "a decision tree": "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
}

#: ONNX op -> reason for refusing it.
REFUSED: dict[str, str] = {op: reason for reason, names in _REASONS.items() for op in names.split()}
