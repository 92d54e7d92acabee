"""``docs/onnx.md``: how ONNX models are read, and what became of each node test of the standard.

``python tools/pages/onnx_page.py OUTCOMES`` prints the page from the file that
``benchmarks/clients/onnx_suite.py --write`` leaves.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autofuse.clients.onnx.models.gaps import GAPS, VERSION

__all__ = ["KERNEL", "PLAIN", "onnx_page"]

#: Verdicts other than reasons.
KERNEL, PLAIN = "passed", "passed without a kernel"

_TEXT = """\
# ONNX

`autofuse build model.onnx` reads a model that is one fused kernel; `run`, `verify`, `dump` and `show` take such files
too. `build` and `run` also take [whole networks](#whole-models), and fuse all nodes that can be fused. Install the
requirements with `pip install 'ascend-autofuse[onnx]'`. A file is recognised by its content or by `.onnx`.

- A named dimension is a symbol; a dimension without a size is a symbol of its own.
- An initialiser with one value, or with an arithmetic sequence, is part of the kernel. Any other is an input of the
  kernel, after the inputs of the model, because a kernel holds no data.
- Operands that determine shapes (the shape of `Reshape`, the axes of a reduction, the pads of `Pad`) must be
  initialisers, constants, or follow from shapes. If they are inputs of the model, it is refused with AF1205, which
  names them.
- An operand that is omitted, or empty for all sizes (the `roi` of `Resize`), puts no constraint on sizes.
- A size may be used as a number: in a `Range` (then it is an Iota), or, in a [whole model](#whole-models), beside
  tensors in an op, where the kernel takes it like another input. Values computed from sizes alone stay outside of
  kernels.
- A graph with an exporter's default name (`main_graph`, `torch_jit`), or without a name, is named after its file.
- An input whose elements are never read is no parameter of the kernel.
- An op is converted by its own converter, by the op of the same name, or by the function body that ONNX gives for
  it. Functions of the model are inlined in the same way.
- Refused with a diagnostic that names the op: `If`, `Loop`, `Scan`, sequences, optional values, strings, random
  numbers, and all other ops that the vector unit cannot compute. Sparse initialisers and files over 64 MiB are
  refused too.
- Data in other files are read if the model is given as a path, from its own folder or one inside it. A file
  elsewhere, or behind a link to elsewhere, is refused, and no more is read than the tensors have elements.

## Whole models

```sh
autofuse build model.onnx -o out
autofuse run model.onnx --shape batch=3
autofuse run model.onnx --input image=image.npy --save results
```

A model that cannot be read as one kernel is *partitioned*: nodes that a kernel can hold become regions with a kernel
each, the others are *fallbacks*. `--partition` does this with every model, `--no-partition` with none; a model that
is one kernel is built as above. A model in which nothing can be fused is refused with the reasons. `--split` and the
single-kernel options of `run` apply to one kernel only. In a folder of files, each is one kernel. From Python, use
`autofuse.models.build(model)` and `autofuse.models.run(model, inputs)`.

- Every node is read by itself, by the rules above. The outputs of a fallback are inputs of kernels, with the type and
  shape that ONNX infers, or that operands determine: named sizes passed to Reshape, images whose size a convolution
  keeps, multiples to which they are resized. The values that a loop carries have the sizes that its body keeps; an
  axis that the loop extends is open, and so is its number of steps. A size that only the result determines is a
  symbol. Local functions are inlined first. A named dimension is a symbol from 0 on, or from 1 where some size would
  otherwise be negative. Where an op takes as many rows of a table as a dimension is long, as with positions, the
  table limits the dimension.
- Nodes whose results are known when the model is read (`Shape`, constants, `ConstantOfShape`) are in no region, and
  neither are nodes that return an operand unchanged (`Identity`, `Dropout`) or that no output needs.
- A region grows along tensors, those with the most bytes first. It is convex: every node between two of its nodes is
  in it. It has at most 64 nodes and 32 inputs and outputs. A change of shape at its end, or beginning, is a view
  outside of it.
- A region that is refused as a kernel is cut where the [splitter](split.md) says, else around nodes that are refused
  alone, which become fallbacks, else where the fewest bytes cross. A region whose kernel moves more bytes than its
  nodes one by one is cut likewise, by the model of the kernel, where symbols have typical sizes (1024 inside their
  range).
- Regions that differ only in names share one kernel. Its name combines the ops and a digest of the computation;
  its parameters are `x0`, `x1`, ... and `y0`, `y1`, ....
- Files up to 2 GiB, including data in other files, are read, with 10,000 nodes at most. Nothing in a file is used as
  a path, except for such data, or as a command.

`out/kernels/NAME/` is the output of `build` for one kernel, and can be run and compiled alone. `out/NAME.model.json`,
schema `autofuse.model/1`, describes how they belong together:

| member | what |
|---|---|
| `schema`, `generator`, `name`, `target`, `modelSha256`, `opsets` | source and generator of the file |
| `counts` | nodes by outcome, regions, kernels |
| `symbols` | sizes that are known at run time: `name`, what it `is` in the model, `min`, `max` |
| `inputs`, `outputs` | of the model: `name`, `dtype`, `shape` (numbers and expressions; null if it is not known) |
| `order` | the execution order: `{"kernel": i}` or `{"view": i}` is region i, `{"fallback": i}` fallback i |
| `regions[].nodes` | `index`, `name` and `op` of its nodes in the model |
| `regions[].kernel`, `folder` | null for a view |
| `regions[].inputs`, `outputs` | `parameter` of the kernel; the `tensor` of the model, or a name in `parameters` |
| `regions[].bytes` | with typical sizes: `once` each input and output; `modelled` for the kernel; `unfused` |
| `fallbacks` | `index`, `name`, `op`, `code` and `reason`, `inputs`, `outputs` |
| `parameters` | model data passed to kernels: `name`, `initializer`, `dtype`, `shape`, `sha256` of the elements |
| `known`, `renamed`, `unused` | the other nodes |

Parameters are not copied: they are initialisers of the model, by name, maybe with another shape; one without an
`initializer` is made by nodes that are known.

`-t` takes any target: Ascend C kernels, C++ loops (`-t cpu`), modules of Triton kernels (`-t nvidia-h100`). Only
Ascend C has a model of the bytes, by which regions are cut.

`run` executes the model in that order: kernels on the CPU twin, on this machine or in Triton's interpreter (with
`--device cuda` on a card), in a separate process, and fallbacks in `onnx.reference`. Inputs that are not given are
random: floats of a normal distribution, integers 0 or 1, or indices of the table that they pick from. Sizes that
`--shape` does not give are chosen: 8, or else the first of some usual ones that ONNX's shape inference accepts; the
output names them.

Every output of a region is compared with `onnx.reference` for the region's operands, and every output of the model
with the model run in `onnx.reference` alone. The tolerance is `--rtol` (0.001) times the element plus `--atol`
(0.00001) times the largest element of the tensor; for float16 and bfloat16, also on the way to an output of another
type, at least 8 and 2 distances between neighbouring numbers; integers are equal. Where a region differs by more, a
rounding bound, computed from its ops, is added. Where rounding decides about an output of the model, as in the
softmax of large numbers, the output is called ill-conditioned (AF6003) and is no failure. A kernel that fails is
replaced by the reference, so that the rest runs. Results computed from a tensor that was not compared are "not
compared", never "ok".

If `onnxruntime` is installed, it runs every fallback too, and the results are compared by the same tolerances: the
table shows what ran each one, and a difference is an error (AF6001). Random numbers are not compared. `onnxruntime`
also runs nodes that `onnx.reference` cannot run or where it differs from a kernel; the line of the region then says
so. Known deviations of `onnx.reference` from the standard are corrected: Softmax, LogSoftmax and Hardmax before
version 13, BatchNormalization from 7 to 13, DequantizeLinear before 19, the axis of a second operand before 7, LRN,
GlobalMaxPool except for images, Loop without a condition or with results of its steps. It does not run the other
known [gaps](#gaps-of-onnxreference): onnxruntime runs the node, or it is refused (AF5003).

At the edges of the ranges kernels agree with `onnx.reference` and onnxruntime except for Tan of more than about 1e8
(NaN), Mish and Gelu of minus infinity (0, their limit), and Mish of the largest number (infinite).

The table shows bytes that the twin counted beside those of the nodes one by one (model). A run takes twice the memory
of the model's live tensors; a node with operands or results of more than 4 GiB is refused.
[onnx_networks.md](onnx_networks.md) has nine networks that were run like this.

## As a backend

```python
import numpy as np
from autofuse.onnx_backend import AutofuseBackend

prepared = AutofuseBackend.prepare(model)  # onnx.ModelProto
(y,) = prepared.run([np.ones((2, 3), np.float32)])  # on the CPU twin
```

A kernel is built at the first run with inputs of new shapes. If the shape of an op's result depends on the elements
of an input, the kernel is built for the elements of that run, and again when they change.

A model that cannot be one kernel is [partitioned](#whole-models), with a kernel per region for all sizes;
`prepare(model, partition=False)` refuses it. Every run then compares the regions with `onnx.reference`; a difference is
an error (AF6001).

## Gaps of onnx.reference

As of version {version} of the package; `autofuse/clients/onnx/models/gaps.py` is the list.

| op | what it computes |
| --- | --- |
{gaps}

## Node tests of the standard

`python benchmarks/clients/onnx_suite.py` runs them all in some minutes. `pytest tests/onnx` compares a sample with
the verdicts below, `pytest tests/onnx --onnx-full` every case. A case with another verdict fails there, even with a
better one. They run as one kernel; a fallback to `onnx.reference` does not count.

"""


def onnx_page(outcomes: Mapping[str, Any]) -> str:
    """Return the page as Markdown.

    Args:
        outcomes: ``onnx``, the version of the package; ``cases``: op -> verdict -> names of cases.
    """
    cases: Mapping[str, Mapping[str, list[str]]] = outcomes["cases"]
    total: Counter[str] = Counter()
    for verdicts in cases.values():
        total.update({v: len(names) for v, names in verdicts.items()})
    passed = total[KERNEL] + total[PLAIN]
    lines = [
        f"Of the {sum(total.values())} cases of `onnx.backend.test` {outcomes['onnx']}, run through `BackendTest` with "
        f"its own tolerances, {passed} pass: {total[KERNEL]} with a",
        f"kernel on the twin, {total[PLAIN]} without one, because the result is a shape or a scalar that is known when "
        "the model is read. The others:",
        "",
        "| reason | cases |",
        "| --- | --- |",
    ]
    reasons = [(n, r) for r, n in total.items() if r not in (KERNEL, PLAIN)]
    lines += [f"| {r} | {n} |" for n, r in sorted(reasons, key=lambda x: (-x[0], x[1]))]
    lines += ["", "By op; a test of the op's function body counts as one of the op.", ""]
    lines += ["| op | passed | not | why |", "| --- | --- | --- | --- |"]
    for op in sorted(cases):
        counts = {v: len(names) for v, names in cases[op].items()}
        good = counts.pop(KERNEL, 0) + counts.pop(PLAIN, 0)
        many = len(counts) > 1
        why = "; ".join(f"{r} ({n})" if many else r for r, n in sorted(counts.items()))
        lines.append(f"| {op} | {good} | {sum(counts.values())} | {why} |")
    gaps = (f"| {', '.join(g.ops.split())} | {g.wrong} |" for g in GAPS)
    return (
        _TEXT.replace("{version}", VERSION).replace("{gaps}", "\n".join(gaps))
        + "Made by `python benchmarks/clients/onnx_suite.py --write` from `tests/onnx/outcomes.json`; do not edit.\n\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(onnx_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
