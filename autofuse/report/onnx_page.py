"""``docs/onnx.md``: how ONNX models are read, and what became of each node test of the standard.

``python -m autofuse.report.onnx_page OUTCOMES`` prints the page from the file that ``benchmarks/onnx_suite.py --write``
leaves.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["KERNEL", "PLAIN", "onnx_page"]

#: Words for the verdicts that are no reasons.
KERNEL, PLAIN = "passed", "passed without a kernel"

_TEXT = """\
# ONNX

`autofuse build model.onnx` reads a model that is one fused kernel; `run`, `verify`, `dump` and `show` take such files
too. `pip install 'ascend-autofuse[onnx]'` brings what they need. A file is recognised by its content or by `.onnx`.

- A dimension with a name is a symbol; one without a size is a symbol of its own.
- An initialiser with one value, or one that counts, is part of the kernel. Any other is an input of the kernel, behind
  the inputs of the model, because a kernel holds no data.
- Operands that decide about shapes (the shape of `Reshape`, the axes of a reduction, the pads of `Pad`) must be
  initialisers, constants, or follow from shapes. If they are inputs of the model, it is refused with AF1205, which
  names them.
- An input whose elements nothing reads is no parameter of the kernel.
- An op is taken over by a converter of its own, by the op of the same name, or by the function body that ONNX gives for
  it. Functions of the model are called likewise.
- Refused with a diagnostic that names the op: `If`, `Loop`, `Scan`, sequences, optional values, strings, random
  numbers, and whatever is no work of the vector unit. So are data in other files, sparse initialisers, and files over
  64 MiB.

## As a backend

```python
import numpy as np
from autofuse.onnx_backend import AutofuseBackend

prepared = AutofuseBackend.prepare(model)  # onnx.ModelProto
(y,) = prepared.run([np.ones((2, 3), np.float32)])  # on the CPU twin
```

A kernel is made at the first run with inputs of new shapes. Where an op must know an operand to know the shape of its
result, and that operand is an input, the kernel is made for the elements of that run, and again when they change.

## Node tests of the standard

`python benchmarks/onnx_suite.py` runs them all in some minutes. `pytest tests/onnx` compares a sample with the verdicts
below, and `pytest tests/onnx --onnx-full` every case. A case with another verdict fails there, also if it is a better
one.

"""


def onnx_page(outcomes: Mapping[str, Any]) -> str:
    """The page as Markdown.

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
    return (
        _TEXT
        + "Made by `python benchmarks/onnx_suite.py --write` from `tests/onnx/outcomes.json`; do not edit.\n\n"
        + "\n".join(lines)
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(onnx_page(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
