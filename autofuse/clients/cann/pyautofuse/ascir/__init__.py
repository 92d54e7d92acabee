"""The vocabulary from which clients build graphs, under the names that they use."""

from autofuse.clients.cann.pyautofuse.ascir import dtypes, ops
from autofuse.clients.cann.pyautofuse.ascir import tools as utils
from autofuse.clients.cann.pyautofuse.ascir.assertion import Assert
from autofuse.clients.cann.pyautofuse.fuser import FusedScheduledResult
from autofuse.clients.cann.pyautofuse.graphs import (
    FusedGraph,
    HintComputeGraph,
    HintGraph,
    ShapeInfo,
)
from autofuse.clients.cann.pyautofuse.nodes import ApiInfo, AscNodeAttr, Operator, SchedInfo
from autofuse.clients.cann.pyautofuse.nodes import OpOutput as OpsOperatorOutput
from autofuse.clients.cann.pyautofuse.sizes import Axis, Max, Min, Mod, SizeExpr

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
