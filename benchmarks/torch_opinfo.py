"""PyTorch's own samples of its operators, compiled by the backend ``autofuse`` and compared with eager.

    python benchmarks/torch_opinfo.py                        # a table on the terminal; takes long
    python benchmarks/torch_opinfo.py --only softmax,gelu    # some operators
    python benchmarks/torch_opinfo.py --write docs/torch_ops.md

Every sample of float32 on cpu of every operator goes through AOTAutograd and the backend, forward and, where the
operator has a gradient, backward.  ``min_ops`` is 1, so that single ops are kernels too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch.utils._pytree import tree_leaves, tree_map

from autofuse.torch import Options
from autofuse.torch.backend import decompositions
from autofuse.torch.compiler import compile_graph
from autofuse.torch.report import report, reset

#: Larger samples than this are left out: a sample is about values, not about speed.
MAX_ELEMENTS = 1 << 16
#: Relative and absolute error that a result may have beside eager's.
TOLERANCE = (2e-5, 2e-5)
#: Operators whose results are random numbers or memory as it was: there is nothing to compare.
_NO_VALUES = """
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_ cauchy exponential
    geometric log_normal normal uniform bernoulli multinomial rand_like randint randint_like randn randn_like
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d"""
LEFT_OUT = frozenset(_NO_VALUES.split())
#: Why samples of an operator differ, where that is known.
BECAUSE = {
    "nn.functional.multi_head_attention_forward": "its samples drop out half of the weights, by other random numbers",
}


@dataclass
class Outcome:
    """What came of the samples of one operator.

    Attributes:
        name: of the operator, with its variant.
        samples: that were run.
        fused: of these, with at least one kernel.
        whole: of these, with nothing left to PyTorch.
        right: of the fused ones, equal to eager.
        wrong: what was different: text -> how often.
        left: why ops stayed with PyTorch: text -> how often.
        skipped: samples that AOTAutograd or eager itself does not take, by reason.
    """

    name: str
    samples: int = 0
    fused: int = 0
    whole: int = 0
    right: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def name_of(op: Any) -> str:
    """Name of an operator with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def operators() -> list[Any]:
    """All operators with samples of float32 on cpu."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [
        op
        for op in op_db
        if torch.float32 in op.supported_dtypes("cpu") and op.name not in LEFT_OUT
    ]


def run_operator(op: Any, most: int | None = None, backward: bool = True) -> Outcome:
    """Run samples of an operator.

    Args:
        op: an OpInfo.
        most: samples at most; None for all.
        backward: also compare gradients.
    """
    out = Outcome(name_of(op))
    grad = (
        backward
        and bool(op.supports_autograd)
        and torch.float32 in op.supported_backward_dtypes("cpu")
    )
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples: Iterator[Any] = iter(
                op.sample_inputs("cpu", torch.float32, requires_grad=grad)
            )
            for sample in itertools.islice(samples, most):
                _run_sample(op, sample, grad, out)
        except Exception as e:  # the samples of some operators need packages that are not here
            out.skipped[f"no samples: {type(e).__name__}"] += 1
    return out


def _run_sample(op: Any, sample: Any, grad: bool, out: Outcome) -> None:
    given = (sample.input, sample.args, sample.kwargs)
    leaves = tree_leaves(given)
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if sum(t.numel() for t in tensors) > MAX_ELEMENTS:
        return
    if any(t.is_sparse or t.layout is not torch.strided for t in tensors):
        return

    def call(*ts: torch.Tensor) -> Any:
        it = iter(ts)
        a, b, c = tree_map(lambda x: next(it) if isinstance(x, torch.Tensor) else x, given)
        found = op.op(a, *b, **c)
        return tuple(x for x in tree_leaves(found) if isinstance(x, torch.Tensor))

    def fresh() -> list[torch.Tensor]:
        return [t.detach().clone().requires_grad_(t.requires_grad) for t in tensors]

    one, two = fresh(), fresh()
    try:
        torch.manual_seed(1)
        wanted = call(*one)
    except Exception as e:
        out.skipped[f"eager: {type(e).__name__}"] += 1
        return
    reset()
    options = Options.of({"min_ops": 1, "opt": "-O0"})

    def compiler(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        return make_boxed_func(compile_graph(graph, options).forward)

    try:
        torch.manual_seed(1)
        compiled = aot_function(
            call,
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=decompositions(),
        )
        have = compiled(*two)
    except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError) as e:
        text = f"{type(e).__name__}: {str(e).splitlines()[0][:80] if str(e) else ''}"
        out.skipped[f"AOTAutograd: {text}"] += 1
        return
    wrong = _compare(have, wanted)
    if not wrong and grad:
        wrong = _compare_gradients(one, two, wanted, have)
    graphs = report().graphs
    out.samples += 1
    left = [k for g in graphs for k in g.not_fused] + [
        ("run time", why) for g in graphs for why in g.at_run_time
    ]
    for name, why in left:
        out.left[f"{name}: {why}"] += 1
    if any(g.fused for g in graphs):
        out.fused += 1
        out.whole += not left
        out.right += not wrong
        if wrong:
            out.wrong[wrong] += 1
    elif wrong:
        out.left[f"(differs without a kernel: {wrong})"] += 1


def _compare(have: Any, wanted: Any) -> str:
    """What is different; empty if nothing is."""
    if len(have) != len(wanted):
        return "another number of results"
    for a, b in zip(have, wanted, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{list(a.shape)} in place of {b.dtype}{list(b.shape)}"
        if not (a.dtype.is_floating_point or a.dtype.is_complex):
            if not torch.equal(a, b):
                return "other integers"
            continue
        if not torch.allclose(a, b, *TOLERANCE, equal_nan=True):
            both = (a - b).abs() / (TOLERANCE[1] + TOLERANCE[0] * b.abs())
            finite = both[torch.isfinite(both)]
            size = f"{float(finite.max()):.1e}" if finite.numel() else "NaN or infinity"
            return f"error {size} of the tolerance"
    return ""


def _compare_gradients(
    one: list[torch.Tensor], two: list[torch.Tensor], wanted: Any, have: Any
) -> str:
    pairs = [(a, b) for a, b in zip(wanted, have, strict=True) if a.requires_grad]
    inputs = [(a, b) for a, b in zip(one, two, strict=True) if a.requires_grad]
    if not pairs or not inputs or any(not b.requires_grad for _, b in pairs):
        return ""
    seeds = [torch.randn_like(a) for a, _ in pairs]
    a = torch.autograd.grad([p for p, _ in pairs], [x for x, _ in inputs], seeds, allow_unused=True)
    b = torch.autograd.grad([p for _, p in pairs], [x for _, x in inputs], seeds, allow_unused=True)
    filled = [
        (x if x is not None else torch.zeros_like(s), y if y is not None else torch.zeros_like(s))
        for x, y, (s, _) in zip(a, b, inputs, strict=True)
    ]
    wrong = _compare([y for _, y in filled], [x for x, _ in filled])
    return f"gradient: {wrong}" if wrong else ""


# all of them ----------------------------------------------------------------------------------


def _by_name(name: str, most: int | None) -> Outcome:
    torch.set_num_threads(1)
    op = next(o for o in operators() if name_of(o) == name)
    return run_operator(op, most)


def main() -> int:
    """Run the operators and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of operators, with commas")
    parser.add_argument("--samples", type=int, default=None, help="samples of each, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--write", type=Path, help="write the page to this file")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    names = [name_of(o) for o in operators() if not only or {o.name, name_of(o)} & only]
    start = time.perf_counter()
    found: list[Outcome] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for o in pool.map(_by_name, names, itertools.repeat(args.samples)):
            found.append(o)
            note = "; ".join(f"{k} x{n}" for k, n in o.wrong.items())
            print(
                f"{o.name}: {o.samples} samples, {o.fused} with kernels, {o.right} right {note}",
                file=sys.stderr,
                flush=True,
            )
    text = page(found, args.samples)
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    print(f"{time.perf_counter() - start:.0f} s, {os.cpu_count()} CPUs", file=sys.stderr)
    fused, right = sum(o.fused for o in found), sum(o.right for o in found)
    return 0 if right >= 0.95 * fused else 1


def page(found: list[Outcome], most: int | None) -> str:
    """The table as Markdown; ``most`` samples of each operator were run."""
    claimed = [o for o in found if o.fused]
    fused, right = sum(o.fused for o in claimed), sum(o.right for o in claimed)
    whole = sum(o.whole for o in claimed)
    lines = [
        "# PyTorch's operator samples",
        "",
        "Made by `python benchmarks/torch_opinfo.py --write docs/torch_ops.md`; do not edit.",
        "",
        f"PyTorch {torch.__version__.split('+')[0]}, float32, cpu (twin), forward and backward, beside eager:",
        f"relative and absolute tolerance {TOLERANCE[0]:g}. A sample goes through AOTAutograd and the backend with",
        f"`min_ops=1`; {'all samples' if most is None else f'the first {most} samples'} of every operator were run.",
        "",
        f"{len(claimed)} operators have kernels: {right} of {fused} samples",
        f"({100 * right / max(fused, 1):.2f} %) equal eager; in {whole} of these nothing is left to PyTorch.",
        "",
        "| operator | samples | with kernels | whole | equal to eager |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {o.name} | {o.samples} | {o.fused} | {o.whole} | {o.right} |"
        for o in sorted(claimed, key=lambda o: o.name)
    ]
    lines += ["", "## What differs", ""]
    wrong = [
        f"- {o.name}: {k} ({n}){': ' + BECAUSE[o.name] if o.name in BECAUSE else ''}"
        for o in claimed
        for k, n in sorted(o.wrong.items())
    ]
    lines += wrong or ["Nothing."]
    lines += ["", "## Why ops of these operators stay with PyTorch", ""]
    reasons = Counter[str]()
    for o in claimed:
        for k, n in o.left.items():
            reasons[k] += n
    lines += [f"- {k} ({n})" for k, n in sorted(reasons.items())] or ["None does."]
    none = sorted(o.name for o in found if not o.fused)
    lines += ["", "## Operators without a kernel", "", ", ".join(none) or "None.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
