"""``explain``: the templates of a graph, with the cost model's view of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from autofuse import api
from autofuse.base.diagnostics import AutofuseError
from autofuse.base.edits import edited_files
from autofuse.commands import words, writing
from autofuse.commands.graph_files import is_built
from autofuse.commands.outcome import Outcome
from autofuse.commands.writing import keep_inputs
from autofuse.implgraph.ops.requirements import requirements
from autofuse.results import read_folder
from autofuse.targets import GpuTarget, ascend_chip, find_target, gpu_target

if TYPE_CHECKING:
    from rich.console import Console

    from autofuse.codegen.backends.ascendc.tuning import Tilings
    from autofuse.codegen.backends.triton.tuning import Tuning
    from autofuse.implgraph.ir.fusion import FusionGraph

__all__ = ["explain"]

#: Note on the effect of an edit on the output.
UNEDITED = "the figures describe the generated kernel (model); run DIR --html FILE times the edit"


def explain(
    graph: Path,
    *,
    shapes: Sequence[str],
    target: str,
    page: Path | None = None,
    tuning: Path | None = None,
    tuning_out: Path | None = None,
) -> Outcome:
    """Schedule a graph and evaluate every kept template, at sizes of the user's choice.

    ``page`` is a file for the same as HTML. Kernels for a GPU have no templates: the plan of each is printed, with
    blocks from the file ``tuning``; ``tuning_out`` is a file for the chosen blocks. For a chip, ``tuning`` is a file of
    tilings: its choice is shown beside the search's.
    """
    from autofuse.report import explanation

    if page is not None:
        ascend_chip(find_target(target))
    if page is not None:
        keep_inputs(page, {"the graph": graph})
    if tuning_out is not None:
        _needs_gpu(target)
        read = {"the graph": graph} | ({} if tuning is None else {"the tuning file": tuning})
        keep_inputs(tuning_out, read)
    given = words.sizes(shapes, "--shape")
    edited: tuple[str, ...] = ()
    remade: api.BuildResult | None = None
    asked: FusionGraph
    if is_built(graph):
        if tuning is not None:
            text = f"--tuning would make a different kernel from the one in {graph}"
            raise AutofuseError.of("AF5007", text, hint="leave out --tuning, or name the graph")
        asked, files = read_folder(graph)
        whole = api.built_again(asked, files)
        if isinstance(whole, api.SplitResult) and whole.split is not None:
            text = f"{asked.label} has several kernels; explain takes one at a time"
            raise AutofuseError.of("AF5007", text, hint="name one of the folders under parts/")
        remade = whole if isinstance(whole, api.BuildResult) else whole.parts[0]
        target = remade.target.name
        edited = tuple(f.name for f in edited_files(graph))
    else:
        asked = api.read(graph)
    sizes = explanation.sizes_of(asked.symbols, given)
    for r in requirements(asked):
        if not r.holds(sizes):
            hint = "a kernel rejects these sizes too"
            raise AutofuseError.of("AF5007", r.text, hint=hint)
    tuned = None if tuning is None else api.read_tuning(tuning)
    built = remade or api.build(graph, target=target, tuning=tuned)
    labels = built.graph.symbol_labels()
    called = {labels[n]: size for n, size in sizes.items()}
    planned = {"triton": _kernels}.get(built.target.backend)
    if planned is not None:
        blocks = cast("Tuning | None", tuned)  # build refuses any other for a GPU
        return planned(built, gpu_target(built.target), sizes, called, blocks, tuning_out)
    found = explanation.explain(
        built.graph.label, built.schedule, ascend_chip(built.target), sizes, built.graph
    )
    found |= {"sizes": called, "edited": list(edited)}
    found["tuned"] = None if tuned is None else _tuned(built, cast("Tilings", tuned), sizes)
    found["tuning"] = None if tuning is None else str(tuning)

    if page is not None:
        from autofuse.report.pages.explain_page import explain_page

        writing.write_all({page: writing.text(explain_page(found))}, None)

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.edits import print_edited
        from autofuse.report.text.kernels.explain import print_explanation

        print_explanation(screen, found)
        print_edited(screen, edited, UNEDITED)
        if page is not None:
            screen.print(f"wrote {page}", soft_wrap=True)

    return Outcome(found, show)


def _tuned(
    built: api.BuildResult, tuning: Tilings, sizes: Mapping[str, int]
) -> dict[str, Any] | None:
    """Return the tuning file's choice at these sizes, None if it has none."""
    from autofuse.codegen.backends.ascendc.tuning import given_tilings
    from autofuse.report.tuned_choice import tuned_choice

    rows = given_tilings(tuning, built.graph)
    return tuned_choice(rows, built.schedule, ascend_chip(built.target), sizes)


def _needs_gpu(target: str) -> None:
    """Raise AF5007 for a target whose kernels have no blocks."""
    if find_target(target).home != "cuda":
        text = f"a tuning file is for NVIDIA cards, not for {target}"
        raise AutofuseError.of("AF5007", text, hint="-t nvidia-h100 writes kernels for a card")


def _kernels(
    built: api.BuildResult,
    target: GpuTarget,
    sizes: Mapping[str, int],
    called: Mapping[str, int],
    tuning: Tuning | None,
    tuning_out: Path | None,
) -> Outcome:
    """Explain the kernels for a GPU; ``called``: the sizes by the names in the graph file."""
    from autofuse.codegen.backends.triton.cost import modelled
    from autofuse.codegen.backends.triton.plan import plan
    from autofuse.codegen.backends.triton.summary import plan_summary
    from autofuse.codegen.backends.triton.tuning import Tuning

    program = plan(built.graph, built.hint, target, tuning)
    if tuning_out is not None:
        writing.write_all({tuning_out: writing.text(Tuning.of(program, target).text())}, None)
    times = {}
    if target.dialect == "cuda":
        times = {t.name: t for t in modelled(program, target, sizes)}
    kernels = plan_summary(program, sizes)
    for row in kernels:
        t = times.get(row["name"])
        row["modelled_us"] = None if t is None else t.us
        row["bottleneck"] = None if t is None else t.bottleneck
    found = {
        "name": built.graph.label,
        "target": target.name,
        "sizes": dict(called),
        "kernels": kernels,
        "modelled_us": None if not times else sum(t.us for t in times.values()),
        "tuned": {} if tuning is None else {k.name: dict(k.sizes) for k in tuning.kernels},
        "files": sorted(n for n in built.files if n.endswith(".py")),
    }

    def show(screen: Console) -> None:
        from autofuse.report.text.kernels.explain import print_kernels

        print_kernels(screen, found)
        if tuning_out is not None:
            screen.print(f"wrote {tuning_out}", soft_wrap=True)

    return Outcome(found, show)
