"""Compile PyTorch's own samples of its operators with the backend ``autofuse`` and compare with eager.

    python benchmarks/clients/torch_opinfo.py                        # a table on the terminal; takes long
    python benchmarks/clients/torch_opinfo.py --only softmax,gelu    # some operators
    python benchmarks/clients/torch_opinfo.py --others 1 --jobs 2 --outcomes opinfo.jsonl --write docs/torch_ops.md

Every cpu sample of every operator runs through AOTAutograd and the backend, forward and, if the operator has a
gradient, backward, in float32 and the other element types that kernels support.  ``min_ops`` is 1, so that single ops
become kernels too.  A sample that fails counts as different, unless AOTAutograd or eager fails in the same way without
the backend.  If eager itself is in doubt, there is a second opinion: eager in float64, or the same graph run by PyTorch
op by op, if that differs from eager too (it draws other random numbers).  Samples recorded by ``--outcomes`` are not
run again: a long run can be interrupted and resumed, and a type added to the recorded ones.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from functorch.compile import aot_function, make_boxed_func
from torch.utils._pytree import tree_leaves, tree_map

from autofuse.clients.torch import Options
from autofuse.clients.torch.backend import decompositions
from autofuse.clients.torch.calls import compile_graph
from autofuse.clients.torch.report import report, reset

VERSION = torch.__version__.split("+")[0]
#: Larger samples than this are skipped: samples test values, not speed.
MAX_ELEMENTS = 1 << 16
#: The numbers in this reason differ between graphs.
_MOVED = re.compile(r"its kernel would move \d+ bytes, the ops by themselves \d+")
#: Samples of one operator per process job; an operator may have hundreds.
PART = 48
#: Element type of samples -> relative and absolute error allowed against eager.
TOLERANCES = {
    torch.float32: 2e-5,
    torch.float16: 2.0**-9,
    torch.bfloat16: 2.0**-6,
    torch.int64: 0.0,
    torch.int32: 0.0,
    torch.uint8: 0.0,
}
#: Operators whose results are random numbers or uninitialised memory, and so cannot be compared.
_NO_VALUES = """
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_ cauchy exponential
    geometric log_normal normal uniform bernoulli multinomial rand_like randint randint_like randn randn_like
    nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d"""
LEFT_OUT = frozenset(_NO_VALUES.split())


@dataclass
class Outcome:
    """Outcome of the samples of one operator.

    Attributes:
        name: name of the operator, with its variant.
        dtype: element type of the samples.
        version: version of PyTorch at the run.
        samples: number of samples run.
        fused: number of samples with at least one kernel.
        whole: number of samples without ops left to PyTorch.
        right: number of fused samples equal to eager.
        settled: second opinion that confirmed right samples -> count.
        wrong: difference -> count.
        left: reason why ops stayed with PyTorch -> count.
        skipped: samples not run, by reason: AOTAutograd or eager itself rejects them, or their size.
    """

    name: str
    dtype: str = "float32"
    version: str = VERSION
    samples: int = 0
    fused: int = 0
    whole: int = 0
    right: int = 0
    settled: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        """Add the outcome of other samples of the same operator."""
        self.version = other.version
        self.samples += other.samples
        self.fused += other.fused
        self.whole += other.whole
        self.right += other.right
        self.settled += other.settled
        self.wrong += other.wrong
        self.left += other.left
        self.skipped += other.skipped

    @classmethod
    def of(cls, record: dict[str, Any]) -> Outcome:
        """Return an outcome recorded as JSON."""
        texts = ("settled", "wrong", "left", "skipped")
        return cls(**{k: Counter(v) if k in texts else v for k, v in record.items()})


def name_of(op: Any) -> str:
    """Return the name of an operator with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def named(dtype: torch.dtype) -> str:
    """Return the name of an element type."""
    return str(dtype).removeprefix("torch.")


def operators(dtype: torch.dtype = torch.float32) -> list[Any]:
    """Return all operators with samples of an element type on cpu."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if dtype in op.supported_dtypes("cpu") and op.name not in LEFT_OUT]


def has_gradient(op: Any, dtype: torch.dtype = torch.float32) -> bool:
    """Return True if an operator's samples are also run backward."""
    return bool(op.supports_autograd) and dtype in op.supported_backward_dtypes("cpu")


def count_samples(op: Any, dtype: torch.dtype) -> int:
    """Return the number of samples of an operator for an element type; 0 if they need missing packages."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return sum(1 for _ in op.sample_inputs("cpu", dtype, requires_grad=False))
        except Exception:
            return 0


def run_operator(
    op: Any, most: int | None = None, first: int = 0, dtype: torch.dtype = torch.float32
) -> Outcome:
    """Run samples of an operator.

    Args:
        op: an OpInfo.
        most: maximum number of samples; None for all.
        first: number of samples to skip.
        dtype: their element type.
    """
    out = Outcome(name_of(op), named(dtype))
    grad = has_gradient(op, dtype)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            samples: Iterator[Any] = iter(op.sample_inputs("cpu", dtype, requires_grad=grad))
            taken = list(itertools.islice(samples, first, None if most is None else first + most))
        except Exception as e:  # the samples of some operators need missing packages
            out.skipped[f"no samples: {type(e).__name__}"] += 1
            return out
        for sample in taken:
            _run_sample(op, sample, grad, dtype, out)
    return out


def _run_sample(op: Any, sample: Any, grad: bool, dtype: torch.dtype, out: Outcome) -> None:
    given = (sample.input, sample.args, sample.kwargs)
    leaves = tree_leaves(given)
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    if sum(t.numel() for t in tensors) > MAX_ELEMENTS:
        out.skipped[f"more than {MAX_ELEMENTS} elements"] += 1
        return
    if any(t.is_sparse or t.layout is not torch.strided for t in tensors):
        out.skipped["not a strided tensor"] += 1
        return

    def call(*ts: torch.Tensor) -> Any:
        it = iter(ts)
        a, b, c = tree_map(lambda x: next(it) if isinstance(x, torch.Tensor) else x, given)
        found = op.op(a, *b, **c)
        return tuple(x for x in tree_leaves(found) if isinstance(x, torch.Tensor))

    def eager(to: torch.dtype = dtype) -> list[torch.Tensor]:
        """Return eager's results and gradients, with tensors of the samples' type converted to another type."""
        return _values(call, _fresh(tensors, dtype, to), grad)

    def by_aot(compiler: Any) -> list[torch.Tensor]:
        """Return results and gradients with a graph compiler."""
        compiled = aot_function(
            call,
            fw_compiler=compiler,
            bw_compiler=compiler,
            inference_compiler=compiler,
            decompositions=decompositions(),
        )
        return _values(compiled, _fresh(tensors, dtype, dtype), grad)

    def op_by_op() -> list[torch.Tensor]:
        return by_aot(lambda g, _: make_boxed_func(g.forward))

    try:
        wanted = eager()
    except Exception as e:
        out.skipped[f"eager: {type(e).__name__}"] += 1
        return
    if any(t.layout is not torch.strided for t in wanted):
        out.skipped["not a strided result"] += 1
        return
    reset()
    options = Options.of({"target": "ascend910b1", "min_ops": 1, "opt": "-O0"})
    settled = ""
    try:
        have = by_aot(lambda g, _: make_boxed_func(compile_graph(g, options).forward))
    except Exception as e:
        wrong = _text(e)
        try:
            op_by_op()
        except Exception as alone:
            if _text(alone) == wrong:
                out.skipped[f"AOTAutograd: {wrong}"] += 1
                return
        wrong = f"fails: {wrong}"
    else:
        error = TOLERANCES[dtype]
        wrong = _compare(have, wanted, error)
        if wrong:
            settled = _second_opinion(
                have, wanted, op_by_op, functools.partial(eager, torch.float64), error
            )
    graphs = report().graphs
    out.samples += 1
    left = [k for g in graphs for k in g.not_fused] + [
        ("run time", why) for g in graphs for why in g.at_run_time
    ]
    for name, why in left:
        out.left[f"{name}: {why}"] += 1
    if any(g.fused for g in graphs) or wrong.startswith("fails"):
        out.fused += 1
        out.whole += not left
        out.right += not wrong or bool(settled)
        if settled:
            out.settled[settled] += 1
        elif wrong:
            out.wrong[wrong] += 1
    elif wrong and not settled:
        out.left[f"(differs without a kernel: {wrong})"] += 1


def _fresh(tensors: list[torch.Tensor], dtype: torch.dtype, to: torch.dtype) -> list[torch.Tensor]:
    """Return fresh copies of tensors, those of one type converted to another."""
    copies = [t.detach().clone() for t in tensors]
    return [
        (c.to(to) if c.dtype == dtype else c).requires_grad_(t.requires_grad)
        for c, t in zip(copies, tensors, strict=True)
    ]


def _values(function: Any, inputs: list[torch.Tensor], grad: bool) -> list[torch.Tensor]:
    """Return the results of a function, and the gradients of its inputs for random output gradients."""
    torch.manual_seed(1)
    results = list(function(*inputs))
    through = [r for r in results if r.requires_grad]
    leaves = [x for x in inputs if x.requires_grad]
    if not grad or not through or not leaves:
        return results
    torch.manual_seed(2)
    given = [torch.randn(r.shape).to(r.dtype) for r in through]
    found = torch.autograd.grad(through, leaves, given, allow_unused=True)
    zeros = (torch.zeros_like(x) for x in leaves)
    return results + [z if g is None else g for g, z in zip(found, zeros, strict=True)]


def _second_opinion(
    have: list[torch.Tensor],
    wanted: list[torch.Tensor],
    op_by_op: Callable[[], list[torch.Tensor]],
    in_float64: Callable[[], list[torch.Tensor]],
    error: float,
) -> str:
    """Return the second opinion that confirms results different from eager's; empty if they are wrong."""
    with contextlib.suppress(
        RuntimeError
    ):  # an operator without float64, or that does not mix it with other types
        exact = in_float64()
        if len(exact) == len(have) and not _compare(
            have, [e.to(h.dtype) for e, h in zip(exact, have, strict=True)], error
        ):
            return "equal to eager in float64"
    graph = op_by_op()
    if _compare(graph, wanted, error) and not _compare(have, graph, error):
        return "equal to the same graph op by op, which differs from eager too"
    return ""


def _text(e: Exception) -> str:
    lines = str(e).splitlines()
    return f"{type(e).__name__}: {lines[0][:80] if lines else ''}"


def _compare(have: list[torch.Tensor], wanted: list[torch.Tensor], error: float) -> str:
    """Return the first difference above a relative and absolute error, in words; empty if all agree."""
    if len(have) != len(wanted):
        return "another number of results or gradients"
    for a, b in zip(have, wanted, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{list(a.shape)} in place of {b.dtype}{list(b.shape)}"
        if not (a.dtype.is_floating_point or a.dtype.is_complex):
            if not torch.equal(a, b):
                return "other integers"
            continue
        # Integer ops may have float results.
        most = max(error, TOLERANCES.get(b.dtype, TOLERANCES[torch.float32]))
        if not torch.allclose(a, b, most, most, equal_nan=True):
            both = (a - b).abs() / (most + most * b.abs())
            finite = both[torch.isfinite(both)]
            size = f"{float(finite.max()):.1e}" if finite.numel() else "NaN or infinity"
            return f"error {size} of the tolerance"
    return ""


# all of them ----------------------------------------------------------------------------------

#: Element type, operator name, first sample, and number of samples.
Work = tuple[str, str, int, int]


def work(dtype: torch.dtype, names: set[str], most: int | None) -> list[Work]:
    """Return the samples to run, in parts, operators with the most samples first."""
    found = {name_of(o): o for o in operators(dtype)}
    counts = {n: count_samples(o, dtype) for n, o in found.items() if not names or n in names}
    if most is not None:
        counts = {n: min(c, most) for n, c in counts.items()}
    return [
        (named(dtype), n, i, max(min(PART, count - i), 1))
        for n, count in sorted(counts.items(), key=lambda x: -x[1])
        for i in range(0, max(count, 1), PART)
    ]


@functools.lru_cache(maxsize=1)
def _by_name(dtype: torch.dtype) -> dict[str, Any]:
    torch.set_num_threads(1)
    return {name_of(o): o for o in operators(dtype)}


def _run(part: Work) -> tuple[Work, Outcome]:
    dtype, name, first, count = part
    of = getattr(torch, dtype)
    return part, run_operator(_by_name(of)[name], count, first, of)


def recorded(file: Path | None) -> dict[Work, Outcome]:
    """Return the parts recorded by an earlier run, without a truncated line."""
    found: dict[Work, Outcome] = {}
    for line in file.read_text("utf-8").splitlines() if file is not None and file.exists() else []:
        try:
            part, outcome = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[tuple(part)] = Outcome.of(outcome)
    return found


def main() -> int:
    """Run the operators and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names of operators, with commas")
    parser.add_argument("--dtypes", default="", help="element types, with commas; else all")
    parser.add_argument("--samples", type=int, help="samples of each operator, at most")
    parser.add_argument("--others", type=int, help="of these, of other types than float32, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--outcomes", type=Path, help="record outcomes here as JSON lines, and go on from there"
    )
    parser.add_argument("--write", type=Path, help="write the page to this file")
    args = parser.parse_args()
    dtypes = [d for d in TOLERANCES if not args.dtypes or named(d) in args.dtypes.split(",")]
    only = set(filter(None, args.only.split(",")))
    most = {d: args.samples if d == torch.float32 else args.others for d in dtypes}
    start = time.perf_counter()
    parts = [p for d in dtypes for p in work(d, only, most[d])]
    known = recorded(args.outcomes)
    done = {p: known[p] for p in parts if p in known}
    todo = [p for p in parts if p not in known]
    with ProcessPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(_run, p) for p in todo]
        for future in as_completed(waiting):
            part, o = future.result()
            done[part] = o
            if args.outcomes:
                with args.outcomes.open("a", encoding="utf-8") as f:
                    f.write(json.dumps([part, vars(o)]) + "\n")
            note = "; ".join(f"{k} x{n}" for k, n in o.wrong.items())
            print(
                f"{len(done)}/{len(parts)} {o.name}, {o.dtype}: {o.samples} samples, "
                f"{o.fused} with kernels, {o.right} right {note}",
                file=sys.stderr,
                flush=True,
            )
    found = {p[:2]: Outcome(p[1], p[0]) for p in parts}
    for part in parts:
        found[part[:2]].add(done[part])
    text = page(list(found.values()), most)
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    print(f"{time.perf_counter() - start:.0f} s, {os.cpu_count()} CPUs", file=sys.stderr)
    fused, right = sum(o.fused for o in found.values()), sum(o.right for o in found.values())
    return 0 if right >= 0.95 * fused else 1


def page(found: list[Outcome], most: Mapping[torch.dtype, int | None]) -> str:
    """Return the tables as Markdown; ``most`` is the maximum number of samples per operator."""
    lines = [
        "# PyTorch's operator samples",
        "",
        "Made by `python benchmarks/clients/torch_opinfo.py --write docs/torch_ops.md`; do not edit.",
        "",
        "PyTorch on cpu (twin), forward and backward, beside eager. A sample goes through AOTAutograd and the backend",
        "with `min_ops=1`. With kernels: samples of which a kernel computes a part; whole: nothing is left to PyTorch;",
        "equal: to eager, but for the tolerance, relative and absolute.",
        "",
        *_totals(found, most),
        "",
        *_table(found),
    ]
    claimed = [o for o in found if o.fused]
    lines += [
        "",
        "## What differs",
        "",
        *_texts((o, k, n) for o in claimed for k, n in o.wrong.items()),
    ]
    settled = ((o, k, n) for o in claimed for k, n in o.settled.items())
    lines += ["", "## What a second opinion settled", "", *_texts(settled)]
    reasons, skipped = Counter[str](), Counter[str]()
    for o in claimed:
        for k, n in o.left.items():
            more = "its kernel would move more bytes than the ops by themselves"
            reasons[_MOVED.sub(more, k)] += n
    for o in found:
        for k, n in o.skipped.items():
            skipped[k] += n
    lines += ["", "## Why ops of these operators stay with PyTorch", ""]
    lines += [f"- {k} ({n})" for k, n in sorted(reasons.items())] or ["None does."]
    lines += ["", "## Samples that were not run", ""]
    lines += [f"- {k} ({n})" for k, n in sorted(skipped.items())] or ["None."]
    none = sorted({o.name for o in found} - {o.name for o in claimed})
    lines += ["", "## Operators without a kernel", "", ", ".join(none) or "None.", ""]
    return "\n".join(lines)


def _totals(found: list[Outcome], most: Mapping[torch.dtype, int | None]) -> list[str]:
    lines = [
        "| element type | PyTorch | tolerance | samples of each operator | operators with kernels "
        "| samples with kernels | whole | equal to eager |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for dtype, limit in most.items():
        claimed = [o for o in found if o.fused and o.dtype == named(dtype)]
        fused, right, whole = (
            sum(getattr(o, k) for o in claimed) for k in ("fused", "right", "whole")
        )
        versions = sorted({o.version for o in claimed})
        count = "all" if limit is None else f"the first {limit}"
        lines.append(
            f"| {named(dtype)} | {', '.join(versions)} | {TOLERANCES[dtype]:.2g} | {count} | {len(claimed)} "
            f"| {fused} | {whole} | {right} ({100 * right / max(fused, 1):.2f} %) |"
        )
    return lines


def _table(found: list[Outcome]) -> list[str]:
    """Return the table: float32 in full, for other types how many samples with kernels equal eager."""
    others = [named(d) for d in TOLERANCES if d != torch.float32]
    heads = ("operator", "samples", "with kernels", "whole", "equal to eager", *others)
    of = {(o.name, o.dtype): o for o in found}
    lines = [f"| {' | '.join(heads)} |", "| " + " | ".join(["---"] * len(heads)) + " |"]
    for name in sorted({o.name for o in found if o.fused}):
        o = of.get((name, "float32"))
        cells = [str(n) for n in (o.samples, o.fused, o.whole, o.right)] if o else [""] * 4
        for dtype in others:
            x = of.get((name, dtype))
            cells.append(f"{x.right} of {x.fused}" if x is not None and x.fused else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _texts(notes: Iterable[tuple[Outcome, str, int]]) -> list[str]:
    found = sorted(
        f"- {o.name}{'' if o.dtype == 'float32' else f', {o.dtype}'}: {k} ({n})"
        for o, k, n in notes
    )
    return found or ["Nothing."]


if __name__ == "__main__":
    raise SystemExit(main())
