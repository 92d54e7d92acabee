"""Time Inductor's lowering and C++ code generation; started by ``peers.py`` with a Python that has torch.

Standard input: an object with ``graph``, a graph document, and ``repeat``.  Standard output: the times as JSON.

The timed part turns a graph of aten operations into text: ``GraphLowering.run`` and ``GraphLowering.codegen``.  Tracing
and decomposition come before the clock starts, and g++ never runs.  The only cache used is that of the CPU's
instruction set, which Inductor determines by compiling a test program.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def main() -> int:
    """Measure one graph."""
    asked = json.load(sys.stdin)
    os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    try:
        import torch
    except ImportError as e:
        print(json.dumps({"missing": str(e)}))
        return 0
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    from torch._inductor.debug import DebugContext
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    torch.set_num_threads(1)
    pick_vec_isa()
    doc = asked["graph"]
    with FakeTensorMode() as fake:
        inputs = [torch.empty(x["shape"], dtype=getattr(torch, x["dtype"])) for x in doc["inputs"]]
    aten = make_fx(function(doc, torch), decomposition_table=select_decomp_table())(*inputs)

    def generate() -> str:
        with torch.no_grad(), V.set_debug_handler(DebugContext()), V.set_fake_mode(fake):
            lowering = GraphLowering(aten, example_inputs=inputs, is_inference=True)
            with V.set_graph_handler(lowering), V.set_extern_kernel_nodes([]):
                lowering.run(*inputs)
                text, _ = lowering.codegen()
        return str(text.value)

    times = []
    for _ in range(asked["repeat"] + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        text = generate()
        times.append([time.perf_counter() - wall, time.process_time() - cpu])
    version = f"torch {torch.__version__}"
    print(json.dumps({"version": version, "times_s": times, "text": text}))
    return 0


def function(doc: Mapping[str, Any], torch: Any) -> Callable[..., Any]:
    """Return the graph as a function of its inputs, with one torch call per node."""
    calls: dict[str, Callable[..., Any]] = {
        "Abs": torch.abs,
        "Add": torch.add,
        "Div": torch.div,
        "Exp": torch.exp,
        "Ln": torch.log,
        "Mul": torch.mul,
        "Neg": torch.neg,
        "ReduceMean": lambda x, axes, keepdims: torch.mean(x, dim=axes, keepdim=keepdims),
        "Rsqrt": torch.rsqrt,
        "Softmax": lambda x, axis: torch.softmax(x, dim=axis),
        "Sqrt": torch.sqrt,
        "Sub": torch.sub,
    }

    def run(*tensors: Any) -> Any:
        values = {x["name"]: t for x, t in zip(doc["inputs"], tensors, strict=True)}
        for node in doc["nodes"]:
            operands = [v["const"] if isinstance(v, dict) else values[v] for v in node["inputs"]]
            values[node["outputs"][0]] = calls[node["op"]](*operands, **node.get("attrs", {}))
        (output,) = doc["outputs"]
        return values[output]

    return run


if __name__ == "__main__":
    sys.exit(main())
