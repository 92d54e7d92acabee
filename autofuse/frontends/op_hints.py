"""Advice on ops that graph files lack: another name, other ops, or computing outside of the graph."""

from __future__ import annotations

import re

from autofuse.frontends.json_positions import quote
from autofuse.implgraph.ops import registry

__all__ = ["advice", "described", "unknown_op"]

_PRODUCT = "autofuse makes vector kernels: call a library for this op and pass its result to the graph as an input"
_SORTED = "kernels cannot sort: leave it out and pass its result to the graph as an input"
_DATA = "the shape of its result depends on the data: leave it out and pass its result to the graph as an input"
_WINDOW = "no op has sliding windows: use a strided Slice for each position of the window, and their Maximum or Add"
_RANDOM = "kernels cannot generate random numbers: pass them to the graph as an input"
_SCATTERED = "no op scatters: leave it out and pass its result to the graph as an input"
_CONTROL = "a graph has no control flow: write a graph for each branch or body"
_RECURRENT = "a graph has no recurrence: write a graph of one step, without its matrix products"
_VIEW = "use Reshape"
_NORMALISED = "write it out: ReduceMean, Sub, Square, ReduceMean, Add, Rsqrt, Mul, then Mul and Add for scale and shift"
_VARIANCE = "write it out: subtract the ReduceMean from x, Square of that, ReduceMean"
_TRIANGLE = "use Select with GreaterEqual of two Iota, one along each dimension"
_NUMBER = 'a number needs no node: write {"const": 1.0} as an input of the node that uses it'
_SIZE = "sizes are not tensors: write the symbol or the number where the size is needed"
_MEMORY = "leave it out: the compiler loads inputs and stores outputs"
_SCALAR = 'the op takes numbers too: write {"const": 2.0} as an input of '

#: Op name of ONNX, of another framework or of Ascend C -> advice.
_ADVICE: dict[str, str] = {
    _PRODUCT: """matmul matmulv2 batchmatmul batchmatmulv2 bmm mm addmm baddbmm gemm einsum dot linear dense
        fullyconnected matmulinteger qlinearmatmul inner outer tensordot det inverse cholesky
        conv conv1d conv2d conv3d convtranspose convinteger qlinearconv deformconv depthwiseconv2d convolution
        deconv fft dft stft""",
    "keep the matrix products outside: a graph can hold the ops between them (Mul, Add, Softmax)": """
        attention flashattention scaleddotproductattention multiheadattention flexattention linearattention""",
    _SORTED: "sort argsort topk median kthvalue mode",
    _DATA: "nonzero unique compress nonmaxsuppression nms maskedselect",
    _WINDOW: "maxpool avgpool averagepool lppool maxpool2d avgpool2d unfold im2col col2im roialign",
    "use ReduceMean along the dimensions of the image": "globalaveragepool globalavgpool adaptiveavgpool2d",
    "use ReduceMax along the dimensions of the image": "globalmaxpool adaptivemaxpool2d",
    "interpolate outside the graph and pass the result as an input": """
        resize upsample interpolate gridsample affinegrid""",
    _RANDOM: """bernoulli multinomial random rand randn randomnormal randomnormallike randomuniform
        randomuniformlike randint""",
    "for inference use Identity; for training, Mul with a mask that is an input of the graph": "dropout",
    _SCATTERED: "scatter scatterelements scatternd scatteradd scatterupdate indexadd tensorscatter",
    _CONTROL: "if loop scan while case cond",
    _RECURRENT: "lstm gru rnn",
    _VIEW: "squeeze unsqueeze expanddims flatten view",
    _NORMALISED: "layernorm layernormalization groupnorm groupnormalization instancenorm instancenormalization",
    "write it out: Square, ReduceMean, Add, Rsqrt, Mul, then Mul for the scale": "rmsnorm rmsnormalization",
    "write it out: Sub, Mul, Mul and Add, with the mean and Rsqrt of the variance of each channel": """
        batchnorm batchnormalization""",
    _VARIANCE: "var variance reducevar",
    "write it out: subtract the ReduceMean from x, Square of that, ReduceMean, Sqrt": "std reducestd",
    "write it out: Square, ReduceSum, Sqrt": "norm reducel2 vectornorm",
    "write it out: Square, ReduceSum, Sqrt, then Div of the input by the result": """
        l2normalize l2normalization lpnormalization normalize""",
    "write it out: Square, ReduceSum": "squaresum squaresumv1 sumsquare reducesumsquare",
    "write it out: Abs, ReduceSum": "reducel1",
    "write it out: with m = ReduceMax of x: Sub of x and m, Exp, ReduceSum, Ln, Add of m": """
        logsumexp reducelogsumexp""",
    "write it out: ReduceSum, Ln": "reducelogsum",
    "write it out: LogSoftmax, Mul with the target, ReduceSum, Neg": "crossentropy softmaxcrossentropyloss",
    "write it out: Sub, Square, ReduceMean": "mseloss",
    "use ReduceSum along dimensions, AddN of several tensors": "sum",
    "take ReduceMean": "mean avg average",
    "use ReduceMax along dimensions, Maximum of two tensors": "max amax",
    "use ReduceMin along dimensions, Minimum of two tensors": "min amin",
    "take ReduceProd": "prod",
    "take ReduceAny": "any",
    "take ReduceAll": "all",
    "take Sub": "subtract rsub",
    "take Mul": "multiply",
    "take Div": "divide",
    "take Pow": "power",
    "take Square": "sqr",
    "take Abs": "absolute fabs",
    "take Neg": "negative",
    "take Round": "rint",
    "take LogicalNot": "not",
    "take LogicalAnd": "and",
    "take LogicalOr": "or",
    "take BitwiseNot": "invertbits",
    "take Transpose": "permute swapaxes",
    "take Gather": "embedding embeddinglookup take indexselect gatherv2 gatherv3",
    "use Gather along one dimension, or GatherElements": "gathernd",
    "use Slice, one for each part": "split splitv splitd chunk",
    "use Slice, which has steps": "stridedslice",
    "use Slice with a step of -1": "flip reverse reversev2",
    "use two Slice and a Concat": "roll",
    "use Concat; Reshape the inputs first": "stack pack",
    "use Slice and Reshape, one for each part": "unstack unbind",
    "use Broadcast along dimensions of size 1, Concat along others": "tile repeat",
    "use Equal of an Iota and the index, then Cast": "onehot",
    "take ClipByValue": "hardtanh relu6",
    "write it out: Mul of two inputs, Mul with the number, Add": "addcmul",
    "write it out: Div of two inputs, Mul with the number, Add": "addcdiv",
    "write it out: Sub of the ends, Mul with the weight, Add": "lerp",
    "write it out: Abs, Pow with 1/3, CopySign": "cbrt",
    "take Fma": "fusedmuladd muladd muladddst",
    "take Iota": "range arange linspace",
    _TRIANGLE: "tril triu trilu",
    _NUMBER: "constant fill full zeros ones zeroslike oneslike constantofshape fulllike duplicate",
    _SIZE: "shape size rank",
    "write it out: Div, Round, ClipByValue, Cast": "quantize quantizelinear ascendquant",
    "write it out: Cast, Sub, Mul": "dequantize dequantizelinear ascenddequant",
    "use Exp of the Neg": "expneg",
    "take Exp": "exponential",
    "use Reshape and Transpose": "spacetodepth depthtospace pixelshuffle",
    _MEMORY: "load store data datacopy output",
    'use Identity; an output with "inout" overwrites an input': "copy assign clone contiguous",
    f"{_SCALAR}Add": "adds",
    f"{_SCALAR}Mul": "muls",
    f"{_SCALAR}Maximum": "maxs",
    f"{_SCALAR}Minimum": "mins",
    "no op computes running products; CumSum computes running sums": "cumprod",
}  # fmt: skip
_BY_NAME = {name: text for text, names in _ADVICE.items() for name in names.split()}


def advice(name: str) -> str:
    """Return advice on an op of another framework; empty for an unknown name."""
    return _BY_NAME.get(re.sub(r"[^a-z0-9]", "", name.lower()), "")


def unknown_op(name: str, *, guess: bool = True) -> str:
    """Return the hint for an unknown op.

    Args:
        name: name of the op.
        guess: search for a name with similar spelling.
    """
    known = advice(name)
    if known:
        return f"{known}; 'autofuse ops' lists the ops"
    close = registry.suggest(name) if guess else None
    if close:
        return f"did you mean {quote(close)}? 'autofuse ops {close}' describes it"
    return "'autofuse ops' lists the ops"


def described(name: str) -> str:
    """Return the hint for an op that is written in an unsupported form."""
    return f"'autofuse ops {name}' describes the op"
