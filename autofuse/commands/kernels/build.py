"""Command line of the verb ``build``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from autofuse.base.diagnostics import AutofuseError
from autofuse.commands import completing
from autofuse.commands.options import (
    DEFAULT_TARGET,
    Invariant,
    Json,
    KernelJson,
    Partition,
    Split,
    Target,
    Tuning,
    examples,
    path,
)
from autofuse.commands.outcome import Outcome, execute

__all__ = ["register"]


class Flow(str, Enum):
    """Return the owner of the files that a build makes, if it is not the build itself."""

    akg = "akg"


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        epilog=examples(
            "autofuse build first.json",
            "autofuse build first.json -o out --target ascend910b2",
            "autofuse build first.json -t nvidia-h100    a module of Triton kernels",
            "autofuse build first.json -t nvidia-h100 --tuning blocks.json",
            "autofuse build first.json -t cpu            C++ loops with OpenMP",
            "autofuse build first.json --entry op-package --ub 65536",
            "autofuse build first.json --entry torch     an operator of PyTorch",
            "autofuse build y.json --entry torch --backward grad.json",
            "autofuse build large.json --split -o out",
            "autofuse build first.json --invariant       row bits independent of batch",
            "autofuse build graphs/ -o out --jobs 2",
            "autofuse build model.onnx -o out         one kernel, or several regions",
            "autofuse build fused.info --flow akg -t gpu    PTX and JSON like AKG's",
            "autofuse build first.json --json | jq .result.templates",
        )
    )(build)


def build(
    context: typer.Context,
    graph: Annotated[
        Path,
        typer.Argument(
            parser=path,
            metavar="GRAPH",
            help="Graph file (JSON or ONNX), or a folder of them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="DIR",
            help="Output folder.  [default: autofuse-out/NAME]",
        ),
    ] = None,
    target: Target = DEFAULT_TARGET,
    entry: Annotated[
        str,
        typer.Option(
            "--entry",
            autocompletion=completing.entries,
            help="launch: a library with C functions; op-package: a custom operator project of CANN; "
            "torch: an extension of PyTorch. "
            "For Triton: launch, or plain: kernel[grid](...), the form of FlagGems operators.",
        ),
    ] = "launch",
    ub: Annotated[
        int | None,
        typer.Option("--ub", metavar="BYTES", help="UB that the kernel may use.  [default: all]"),
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option(
            "--backward",
            parser=path,
            metavar="GRAPH",
            help="For --entry torch: graph of the gradient.",
        ),
    ] = None,
    split: Split = False,
    invariant: Invariant = False,
    tuning: Tuning = None,
    partition: Partition = None,
    flow: Annotated[
        Flow | None,
        typer.Option(
            "--flow",
            help="Write the same files as MindSpore AKG; -t also takes gpu, ascend.",
            show_default=False,
        ),
    ] = None,
    kernel_json: Annotated[
        KernelJson | None,
        typer.Option(
            "--kernel-json",
            help="Keys of the flow's JSON: those of AKG, or of its description.  [default: upstream]",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Overwrite edited files and files that autofuse did not write."
        ),
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Number of parallel jobs; 0: one per core.")
    ] = 0,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List the files of a graph.")
    ] = False,
    json: Json = False,
) -> None:
    """Generate kernels of a graph: Ascend C, or Triton.

    For a GPU (-t nvidia-h100), writes a module with as many Triton kernels as the graph needs.
    Given a folder, builds every graph in it into a project of its own, at the same relative path in
    DIR. Where CANN is installed (ASCEND_HOME_PATH), also compiles for the chip. If a graph is too
    large for one kernel, the error says where to cut it; --split cuts it there. For an ONNX model
    that needs more than one kernel, every region that can be fused gets one. With --flow akg, writes
    the same files as AKG's command: for a GPU, PTX and its JSON. Without -t, the "process" of an info
    file selects the target: cuda, cpu or aicore.
    """

    def action() -> Outcome:
        if flow is not None:
            from autofuse.commands.kernels.akg import build_akg

            return build_akg(
                graph,
                output,
                target=target if _is_given(context, "target") else None,
                keys=kernel_json.value if kernel_json is not None else None,
                ub_bytes=ub,
                tuning=tuning,
                refused={
                    "--split": split,
                    "--partition": partition,
                    "--entry": None if entry == "launch" else entry,
                    "--invariant": invariant,
                    "--backward": backward,
                },
                force=force,
                jobs=jobs,
                quiet=json,
                verbose=verbose,
            )
        from autofuse.commands.kernels.building import build, build_many, only_of_flows

        only_of_flows({"--kernel-json": kernel_json})
        if graph.is_dir() and not partition:
            if tuning is not None:
                text = "a tuning file is for one graph"
                raise AutofuseError.of(
                    "AF5007", text, hint="give --tuning with a single graph file"
                )
            if backward is not None:
                text = "a gradient graph is for one graph"
                raise AutofuseError.of(
                    "AF5007", text, hint="give --backward with a single graph file"
                )
            return build_many(
                graph,
                output,
                target=target,
                entry=entry,
                ub_bytes=ub,
                split=split,
                invariant=invariant,
                force=force,
                jobs=jobs,
                quiet=json,
            )
        return build(
            graph,
            output,
            target=target,
            entry=entry,
            ub_bytes=ub,
            split=split,
            invariant=invariant,
            tuning=tuning,
            backward=backward,
            partition=partition,
            force=force,
            quiet=json,
            verbose=verbose,
        )

    raise typer.Exit(execute("build", action, as_json=json))


def _is_given(context: typer.Context, name: str) -> bool:
    """Return True if the user gave an option; False if it has its default."""
    # Depending on its version, Typer bundles click or depends on it.
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
