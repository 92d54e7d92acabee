"""``dump`` and ``show``: a graph on its way through the compiler."""

from __future__ import annotations

import difflib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.codegen.backends.interface import plans
from autofuse.commands import writing
from autofuse.commands.options import STAGES, TEMPLATE_STAGES
from autofuse.commands.outcome import Outcome
from autofuse.implgraph.ir.printer import print_graph
from autofuse.implgraph.ir.serialise import to_json
from autofuse.report.text.ir.graph import fusion_text
from autofuse.targets import find_target
from autofuse.tracing import tracing

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.implgraph.ir.fusion import FusionGraph
    from autofuse.implgraph.ir.graph import ImplGraph

__all__ = ["dump", "show"]


def dump(graph: Path, *, stage: str | None, template: int | None, target: str) -> Outcome:
    """Show the output of ``stage``, as text and as JSON.

    The default stage is ``impl``, or ``files`` for a target without templates.
    """
    planned = plans(find_target(target))
    if stage is None:
        stage = "files" if planned else "impl"
    if stage not in STAGES:
        near = difflib.get_close_matches(stage, STAGES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise AutofuseError.of(
            "AF1005", f"there is no stage {stage!r}", hint=f"{hint}stages: {', '.join(STAGES)}"
        )
    if planned and (template is not None or stage in TEMPLATE_STAGES):
        text = f"kernels for {target} have no templates, and so no stage impl or kernel"
        raise AutofuseError.of("AF5007", text, hint="stages: fusion, hint, files")
    if template is not None and stage not in TEMPLATE_STAGES:
        raise AutofuseError.of(
            "AF1005",
            f"--template selects a template, but the stage {stage} has none",
            hint="use --stage impl or --stage kernel",
        )
    if stage == "fusion":
        fusion = api.read(graph)
        return _texts(stage, [(fusion.name, fusion_text(fusion), to_json(fusion))])
    if stage == "hint":
        loops = api.hint_of(graph, target=target)
        return _texts(stage, [(loops.name, print_graph(loops), to_json(loops))])
    made: dict[str, Any] = {}

    with tracing(target) as trace:

        def keep(stage: str, name: str, before: object, after: Any) -> None:
            made[stage] = after
            if trace.observe is not None:
                trace.observe(stage, name, before, after)

        result = api.observed(graph, keep, target=target)
    if stage == "files":
        found = {"stage": stage, "files": dict(sorted(result.files.items()))}
        return Outcome(found, lambda screen: _write_files(result.files))
    impls = _impls(result, template)
    if stage == "impl":
        return _texts(stage, [(i.name, print_graph(i), to_json(i)) for i in impls])
    from autofuse.report.text.ir.kernel import kernel_json, kernel_text

    functions = [made["passes"].functions[i.name] for i in impls]
    return _texts(stage, [(f.name, kernel_text(f), kernel_json(f)) for f in functions])


def _impls(result: api.BuildResult, key: int | None) -> list[ImplGraph]:
    """Return the templates of one tiling key, or all, each once."""
    from autofuse.schedule.axes.result import tiling_keys

    keys = tiling_keys(result.schedule)
    if key is None:
        return list({i.name: i for choice in keys for i in choice}.values())
    if not 0 <= key < len(keys):
        raise AutofuseError.of(
            "AF5007",
            f"there is no tiling key {key}: {result.name} has {len(keys)}",
            hint=f"keys: 0 to {len(keys) - 1}; see: autofuse build",
        )
    return list(keys[key])


def _texts(stage: str, parts: Sequence[tuple[str, str, object]]) -> Outcome:
    """``parts``: name, text, JSON form."""
    rows = [{"name": name, "text": text, "ir": ir} for name, text, ir in parts]

    def show(screen: Console) -> None:
        sys.stdout.write("\n".join(text.rstrip("\n") + "\n" for _, text, _ in parts))

    return Outcome({"stage": stage, "parts": rows}, show)


def _write_files(files: Mapping[str, str]) -> None:
    for name, text in sorted(files.items()):
        sys.stdout.write(f"==> {name}\n{text}\n")


def show(graph: Path, output: Path | None) -> Outcome:
    """Summarise the graph, and draw its picture."""
    if output is not None and output.suffix.lower() not in ("", ".svg"):
        text = f"{output} has the wrong extension: pictures are SVG"
        hint = f"for instance -o {output.with_suffix('.svg')}"
        raise AutofuseError.of("AF5007", text, hint=hint)
    fusion = api.read(graph)
    found = {**_summary(fusion), "picture": None}
    if output is not None:
        from autofuse.report.pages.picture import to_svg

        writing.write_all({output: writing.text(to_svg(api.hint_of(fusion), source=fusion))})
        found["picture"] = str(output)

    def show_text(screen: Console) -> None:
        from autofuse.report.text.kernels.build import print_graph_summary

        print_graph_summary(screen, found)
        if output is not None:
            screen.print(f"wrote {output}", soft_wrap=True)

    return Outcome(found, show_text)


def _summary(graph: FusionGraph) -> dict[str, Any]:
    def row(parameter: str, tensor: str) -> dict[str, Any]:
        t = graph.tensors[tensor]
        return {"name": parameter, "dtype": t.dtype.name, "shape": [*map(graph.in_words, t.shape)]}

    ops = Counter(n.op for n in graph.nodes)
    return {
        "name": graph.label,
        "nodes": len(graph.nodes),
        "ops": dict(sorted(ops.items(), key=lambda kv: (-kv[1], kv[0]))),
        "symbols": [
            {"name": s.label, "min": s.min, "max": s.max, "hint": s.hint} for s in graph.symbols
        ],
        "inputs": [row(name, name) for name in graph.inputs],
        "outputs": [{**row(o.name, o.tensor), "inout": o.inout} for o in graph.outputs],
    }
