"""``certify``: the certificate of a kernel, as JSON and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autofuse.base.diagnostics import AutofuseError, Diagnostic
from autofuse.base.wording import differing
from autofuse.commands.options import DEFAULT_TARGET, Invariant, Json, Seed, Target, examples, path
from autofuse.commands.outcome import Outcome, execute

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(
        "certify",
        epilog=examples(
            "autofuse certify first.json",
            "autofuse certify first.json --invariant -o certificates",
            "autofuse certify out               the kernel in a folder, edited or not",
            "autofuse certify first.json --shapes 8 --seed 7",
            "autofuse certify first.json --json | jq .result.certificate.accuracy",
        ),
    )(_certify)


def _certify(
    source: Annotated[
        Path,
        typer.Argument(
            parser=path, metavar="GRAPH_OR_DIR", help="A graph file, or a folder that build wrote."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path,
            metavar="DIR",
            help="Output folder.  [default: the folder, else autofuse-out/NAME]",
            show_default=False,
        ),
    ] = None,
    shapes: Annotated[
        int, typer.Option("--shapes", min=1, max=64, help="Number of shapes to run.")
    ] = 3,
    seed: Seed = 0,
    invariant: Invariant = False,
    target: Target = DEFAULT_TARGET,
    json: Json = False,
) -> None:
    """Write a certificate: what is known about a kernel, and how.

    Writes NAME.certificate.json and NAME.certificate.html: proofs made before compilation, checks on
    the CPU twin and their shapes, accuracy on a grid of values, bytes moved, hashes of inputs and
    outputs, and the sizes that may change the bits of a row. Each figure has a status; none is
    measured on a chip. The certificate of a kernel is deterministic. Exit code 1 if a check fails.
    """

    def action() -> Outcome:
        return certify(
            source,
            output,
            shapes=shapes,
            seed=seed,
            invariant=invariant,
            target=target,
            quiet=json,
        )

    raise typer.Exit(execute("certify", action, as_json=json))


def certify(
    source: Path,
    output: Path | None,
    *,
    shapes: int,
    seed: int,
    invariant: bool,
    target: str,
    quiet: bool = False,
) -> Outcome:
    """Make a certificate, and write it as JSON and as a page."""
    from autofuse.commands import writing
    from autofuse.commands.kernels.building import DEFAULT_FOLDER
    from autofuse.implgraph.ir.serialise import json_text
    from autofuse.measure.certificate import certify as certified
    from autofuse.report.pages.certificate_page import certificate_page
    from autofuse.report.text.console import progress

    if source.is_dir() and invariant:
        text = f"--invariant would make a different kernel from the one in {source}"
        raise AutofuseError.of("AF5007", text, hint="build it with --invariant")
    with progress("certify", 1, show=not quiet) as tick:
        found = certified(source, target=target, invariant=invariant, shapes=shapes, seed=seed)
        tick()
    name = found["kernel"]["name"]
    folder = output or (source if source.is_dir() else DEFAULT_FOLDER / name)
    names = [f"{name}.certificate.json", f"{name}.certificate.html"]
    if folder.is_dir():
        from autofuse.base.manifest import check_inside

        check_inside(folder, names, "AF5005")
    data, page = (folder / n for n in names)
    writing.write_all(
        {
            data: writing.text(json_text(found, 2) + "\n"),
            page: writing.text(certificate_page(found)),
        },
        folder,
    )
    result = {"certificate": found, "written": [str(data), str(page)]}

    def show(screen: Console) -> None:
        from autofuse.report.text.chip.certificate import print_certificate

        print_certificate(screen, result)

    return Outcome(result, show, _findings(found), bool(found["ok"]))


def _findings(found: dict[str, Any]) -> tuple[Diagnostic, ...]:
    """Return the findings that make the kernel of a certificate wrong."""
    out = [Diagnostic("AF4001", text) for text in found["proved"]["refuted"]]
    out += [Diagnostic("AF2001", text) for text in found["proved"]["graphs"]["broken"]]
    if not found["checked"]["ok"]:
        first = next(iter(found["checked"]["findings"]), "no run of the kernel passed")
        hint = "autofuse verify shows every finding"
        out.append(Diagnostic("AF5004", f"checks on the twin failed: {first}", hint=hint))
    out += [
        Diagnostic(
            "AF6001",
            differing(r["wrong"], r["elements"], f"output {r['output']}")
            + f" on the grid {r['grid']!r}",
        )
        for r in found["accuracy"]["grids"]
        if r.get("wrong")
    ]
    if not out and not found["ok"]:
        text = "the bits of an output differ between two runs with the same inputs"
        out.append(Diagnostic("AF5004", text, hint="see the section bits of the certificate"))
    return tuple(out)
