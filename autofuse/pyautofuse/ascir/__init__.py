"""The words that clients build graphs with, under the names that they use."""

from autofuse.pyautofuse.ascir import dtypes, ops
from autofuse.pyautofuse.ascir import tools as utils
from autofuse.pyautofuse.ascir.assertion import Assert
from autofuse.pyautofuse.fuser import FusedScheduledResult
from autofuse.pyautofuse.graphs import FusedGraph, HintComputeGraph, HintGraph, ShapeInfo
from autofuse.pyautofuse.nodes import ApiInfo, AscNodeAttr, Operator, SchedInfo
from autofuse.pyautofuse.nodes import OpOutput as OpsOperatorOutput
from autofuse.pyautofuse.sizes import Axis, Max, Min, Mod, SizeExpr

__all__ = [
    "ApiInfo",
    "AscNodeAttr",
    "Assert",
    "Axis",
    "FusedGraph",
    "FusedScheduledResult",
    "HintComputeGraph",
    "HintGraph",
    "Max",
    "Min",
    "Mod",
    "Operator",
    "OpsOperatorOutput",
    "SchedInfo",
    "ShapeInfo",
    "SizeExpr",
    "dtypes",
    "ops",
    "utils",
]
