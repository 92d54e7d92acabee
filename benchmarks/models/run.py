"""Measure whole models against eager PyTorch and Inductor: time, memory, launches, compile time, losses, gradients.

    pip install transformers timm
    python benchmarks/models/run.py --out FOLDER                      all models, on a card
    python benchmarks/models/run.py --out FOLDER --models bert,unet   models whose names have these parts
    python benchmarks/models/run.py --out FOLDER --warm 8             compiled in 8 processes before, see below
    python benchmarks/models/run.py --out FOLDER --device cpu --small tiny configurations, on a CPU
    python benchmarks/models/run.py --out FOLDER --table              the table of a folder, as Markdown

A row is appended to ``models.jsonl`` as soon as it is done; rows of the folder are not measured again.  Competitors
take turns, in another order each round, so that clocks, memory and other processes affect them alike.

With ``--warm``, compile times mean nothing, and regions are those of ``--warm``'s processes, as a compiled graph from
Inductor's cache has no report.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from zoo import MODELS, Model, loss_of

COMPETITORS = ("eager", "inductor", "autofuse")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", default="", help="parts of names, with commas")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--small", action="store_true", help="tiny configurations; times mean nothing"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no model after this")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--mode", default="", help="for Inductor and autofuse, such as max-autotune"
    )
    parser.add_argument("--choose", default="model", help="option of autofuse")
    parser.add_argument("--competitors", default=",".join(COMPETITORS))
    parser.add_argument("--warm", type=int, default=0, help="processes that compile beforehand")
    parser.add_argument("--warm-seconds", type=float, default=300.0, help="limit of these")
    parser.add_argument("--compile-only", default="", help="a model, for a process of --warm")
    parser.add_argument("--table", action="store_true", help="of the rows in the folder")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "models.jsonl"
    rows = [json.loads(x) for x in file.read_text().splitlines()] if file.is_file() else []
    if args.table:
        sys.stdout.write("\n".join(table(rows)) + "\n")
        return 0
    parts = [p for p in args.models.split(",") if p]
    done = {r["name"] for r in rows}
    wanted = [n for n in MODELS if n not in done and (not parts or any(p in n for p in parts))]
    if args.compile_only:
        compiled_before(args.compile_only, args)
        return 0
    began = time.time()
    if args.warm:
        warm(wanted, args)
    for name in wanted:
        if time.time() - began > args.seconds:
            break
        row = measured(name, MODELS[name], args)
        if args.warm and (counts := args.out / f"{_key(name)}.json").is_file():
            row |= json.loads(counts.read_text())
        rows.append(row)
        with file.open("a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")
        print(shown(row), flush=True)
        _free()
    sys.stdout.write("\n".join(table(rows)) + "\n")
    return 0


def warm(names: Sequence[str], args: argparse.Namespace) -> None:
    """Compile models in parallel processes, into the caches of Inductor and Triton; each starts with the next model."""
    began = time.time()
    own = [f"--out={args.out}", f"--device={args.device}", f"--seed={args.seed}"]
    own += [f"--mode={args.mode}", f"--choose={args.choose}", f"--competitors={args.competitors}"]
    own += ["--small"] if args.small else []
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
    left, running = list(names), []
    while (left or running) and time.time() < began + args.warm_seconds:
        running = [p for p in running if p.poll() is None]
        while left and len(running) < args.warm:
            command = [sys.executable, __file__, *own, f"--compile-only={left.pop(0)}"]
            running.append(subprocess.Popen(command, env=environment))
        time.sleep(0.25)
    for p in running:
        p.kill()
        p.wait()
    print(f"compiled in {time.time() - began:.0f} s, {len(left) + len(running)} left", flush=True)


def compiled_before(name: str, args: argparse.Namespace) -> None:
    """Compile a model for every competitor, and note its regions."""
    module, given = built(MODELS[name], args)
    for competitor in args.competitors.split(","):
        if competitor == "eager":
            continue
        torch._dynamo.reset()
        step = Step(module, given, MODELS[name], _compiled(competitor, module, args), args.device)
        try:
            step()
        except Exception as e:
            # The measurement will hit it again and record it.
            print(f"{name}: {competitor}: {type(e).__name__}", flush=True)
        if competitor == "autofuse":
            (args.out / f"{_key(name)}.json").write_text(json.dumps(regions()))


def regions() -> dict[str, int]:
    """Return the numbers of regions and graphs of the report."""
    from autofuse.clients.torch import report

    graphs = report().graphs
    return {"regions": sum(len(g.fused) for g in graphs), "graphs": len(graphs)}


def _key(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")


def built(model: Model, args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Return a module on its device, and its inputs."""
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    module, given = model.build(args.small)
    layout = torch.channels_last if model.channels_last else torch.preserve_format
    module = module.to(args.device, model.dtype).train(model.trains)
    module = module.to(memory_format=layout)
    return module, {k: _moved(v, model, args.device) for k, v in given.items()}


def measured(name: str, model: Model, args: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a model."""
    module, given = built(model, args)
    row: dict[str, Any] = {
        "name": name,
        "seed": args.seed,
        "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "mode": args.mode,
        "choose": args.choose,
        "small": args.small,
        "results": {},
    }
    steps: dict[str, Callable[[], Any]] = {}
    want: list[torch.Tensor] = []
    torch._dynamo.reset()
    for competitor in args.competitors.split(","):
        result: dict[str, Any] = {}
        row["results"][competitor] = result
        try:
            step = Step(module, given, model, _compiled(competitor, module, args), args.device)
            start = time.perf_counter()
            found = step.checked(args.seed)
            result["compile_s"] = time.perf_counter() - start
            if competitor == "eager":
                want = found
            result["error"] = _error(found, want)
            result |= step.facts()
            steps[competitor] = step
        except Exception as e:
            traceback.print_exc(limit=-3)
            result["failed"] = f"{type(e).__name__}: {e}"[:600]
    times: dict[str, list[float]] = {c: [] for c in steps}
    order = random.Random(args.seed)
    for _ in range(args.rounds):
        # A step is a few percent slower behind one of eager, which leaves other memory behind.
        for c in order.sample(list(steps), len(steps)):
            times[c].append(_wall(steps[c], args.device))
    for c, found_ms in times.items():
        row["results"][c]["wall_ms"] = statistics.median(found_ms)
        row["results"][c]["rounds_ms"] = found_ms
    return row | (regions() if "autofuse" in steps else {})


class Step:
    """One step of a model, by one competitor."""

    def __init__(
        self, module: Any, given: dict[str, Any], model: Model, call: Any, device: str
    ) -> None:
        self.module, self.given, self.model, self.call, self.device = (
            module,
            given,
            model,
            call,
            device,
        )

    def __call__(self) -> Any:
        """Run it; gradients are those of this step alone."""
        cast = self.model.autocast
        with (
            torch.autocast(self.device, dtype=cast or torch.bfloat16, enabled=cast is not None),
            torch.set_grad_enabled(self.model.trains),
        ):
            loss = loss_of(self.call(**self.given))
        if self.model.trains:
            self.module.zero_grad(set_to_none=True)
            loss.backward()
        return loss

    def checked(self, seed: int) -> list[torch.Tensor]:
        """Return the loss and all gradients."""
        torch.manual_seed(seed)
        loss = self()
        grads = [p.grad for p in self.module.parameters() if p.grad is not None]
        return [loss.detach().double(), *(g.detach().double() for g in grads)]

    def facts(self) -> dict[str, Any]:
        """Return device time, launches and peak memory of a step; nothing on a CPU."""
        if self.device != "cuda":
            return {}
        from torch.profiler import ProfilerActivity, profile

        for _ in range(3):
            self()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self()
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated()
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            self()
            torch.cuda.synchronize()
        kernels = [e for e in p.events() if e.device_type.name == "CUDA" and "Memset" not in e.name]
        busy = sum(e.time_range.elapsed_us() for e in kernels) / 1e3
        names = sorted({e.name for e in kernels if e.name.startswith("fused_")})
        ours = sum(e.time_range.elapsed_us() for e in kernels if e.name.startswith("fused_")) / 1e3
        return {
            "device_ms": busy,
            "launches": len(kernels),
            "peak_mib": peak / 2**20,
            "ours_ms": ours,
            "ours": names[:20],
        }


def _compiled(competitor: str, module: Any, args: argparse.Namespace) -> Any:
    if competitor == "eager":
        return module
    how: dict[str, Any] = {"mode": args.mode} if args.mode else {}
    if competitor == "inductor":
        return torch.compile(module, dynamic=False, **how)
    from autofuse.clients.torch import reset

    reset()
    # torch.compile takes a mode or options, not both.
    how = how or {"options": {"choose": args.choose}}
    return torch.compile(module, dynamic=False, backend="autofuse", **how)


def _moved(x: Any, model: Model, device: str) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    x = x.to(device, model.dtype) if x.is_floating_point() else x.to(device)
    return x.to(memory_format=torch.channels_last) if model.channels_last and x.dim() == 4 else x


def _error(have: Iterable[torch.Tensor], want: Iterable[torch.Tensor]) -> float:
    """Return the norm of the differences over that of the values: of the loss, or of all gradients, if that is larger.

    Single gradients may be 0 but for rounding, as that of a bias before a softmax.
    """
    (loss, *grads), (right, *all_) = list(have), list(want)
    found = float((loss - right).abs() / right.abs().clamp(min=1e-12))
    if not grads:
        return found
    apart = sum(float((a - b).square().sum()) for a, b in zip(grads, all_, strict=True))
    return max(found, math.sqrt(apart / sum(float(b.square().sum()) for b in all_)))


def _wall(step: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def _free() -> None:
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


# the table ------------------------------------------------------------------------------------


def shown(row: dict[str, Any]) -> str:
    """Return a row as a line of the log."""
    parts = []
    for c, r in row["results"].items():
        text = r.get("failed") or f"{r.get('wall_ms', 0):.2f} ms error {r['error']:.1e}"
        parts.append(f"{c} {text[:120]}")
    return f"{row['name']}: {'; '.join(parts)}; {row.get('regions', 0)} regions"


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the table, and geometric means of ratios over Inductor; above 1, autofuse is better."""
    heads = ("wall e / i / a, ms", "i/a", "device i / a, ms", "launches i / a", "MiB i / a")
    yield f"| model | {' | '.join(heads)} | compile i / a, s | regions, their share |"
    yield "|---|---|--:|---|---|---|---|---|"
    ratios: dict[str, list[float]] = {}
    for r in rows:
        e, i, a = (r["results"].get(c, {}) for c in COMPETITORS)
        if "failed" in a or "failed" in i or "wall_ms" not in a:
            failed = [c for c, f in r["results"].items() if "failed" in f]
            yield f"| {r['name']} | failed: {', '.join(failed)} | | | | | | |"
            continue
        cells = [
            r["name"],
            " / ".join(f"{x.get('wall_ms', math.nan):.2f}" for x in (e, i, a)),
            f"{i['wall_ms'] / a['wall_ms']:.3f}",
        ]
        for key, digits in (("device_ms", 2), ("launches", 0), ("peak_mib", 0), ("compile_s", 1)):
            cells.append(" / ".join(f"{x.get(key, 0):.{digits}f}" for x in (i, a)))
        share = a.get("ours_ms", 0.0) / max(a.get("device_ms", 0.0), 1e-9)
        cells.append(f"{r.get('regions', 0)}, {share:.0%}")
        yield f"| {' | '.join(cells)} |"
        for key in ("wall_ms", "device_ms", "peak_mib", "compile_s"):
            if i.get(key) and a.get(key):
                ratios.setdefault(key, []).append(i[key] / a[key])
    for key, found in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        yield f"\n{key}: Inductor over autofuse, {len(found)} models: {mean:.3f}, worst {min(found):.3f}"


if __name__ == "__main__":
    sys.exit(main())
