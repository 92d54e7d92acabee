"""Write the page about measured times, and its charts, from the results of ``run.py``.

python benchmarks/gpu/report.py h100                         writes docs/measured_gpu.md and docs/pictures/gpu_*.svg
python benchmarks/gpu/report.py h200 --page measured_h200    another page, with its own pictures
python benchmarks/gpu/report.py FOLDER --docs FOLDER         from a folder of ``run.py``, to another place
python benchmarks/gpu/report.py h100 --own generated         the generated modules in place of torch.compile

The files of ``h100`` are in ``benchmarks/results``; ``archive.py`` there adds files.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import charts
from records import INDUCTORS, Record, latest, of_roof, ratio, time_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "results"))

import archive

ROOT = Path(__file__).resolve().parents[2]
PAGE = "measured_gpu"

#: Inductor's tuning is tried below this fraction of the roof.
MAX_BELOW = 0.93
#: Target geometric means: over Inductor's default, and over its better mode.
AIMS: dict[str, tuple[float | None, float | None]] = {
    "kernelbench": (1.15, 1.06),
    "operators": (1.20, 1.14),
    "sweep": (1.20, 1.14),
    "level2": (None, None),
}
TITLES = {
    "kernelbench": "KernelBench, level 1",
    "operators": "Operators of models",
    "sweep": "Rows of 64 to 2^20",
    "level2": "KernelBench, level 2, with products by the library",
}
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
PEERS = ("eager", "inductor", "max", "quack", "liger")

#: Rows below this time (us) at the roof are not in the means: L2 and the launch dominate them.
SMALL_US = 20.0
#: A row's ratio to the better Inductor should not be below this.
LEAST_RATIO = 0.95
#: File of modelled times next to the files of sets, and their target error.
MODEL, MODEL_AIM = "model.json", 0.10
#: File of ``dram.py``, and the maximum target ratio to the compulsory bytes.
DRAM, DRAM_MOST = "dram.json", 1.03
#: Subfolder of runs against kernel libraries.
LIBRARIES = "libraries/"

Files = Mapping[str, bytes]


def main() -> int:
    """Write the page."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("place", help="a machine of benchmarks/results, or a folder of run.py")
    options.add_argument("--docs", type=Path, default=ROOT / "docs")
    options.add_argument("--page", default=PAGE, help=f"name of the page (default {PAGE})")
    options.add_argument("--own", choices=("autofuse", "generated"), default="autofuse")
    args = options.parse_args()
    files = archive.files(args.place, "gpu")
    found = latest(files)
    if not found:
        print(f"no results in {args.place}", file=sys.stderr)
        return 1
    drawn = {f"{prefix(args.page)}_{n}": text for n, text in pictures(found, args.own).items()}
    (args.docs / "pictures").mkdir(parents=True, exist_ok=True)
    for name, text in drawn.items():
        (args.docs / "pictures" / name).write_text(text, encoding="utf-8")
    page = args.docs / f"{args.page}.md"
    text = markdown(found, args.own, list(drawn), files, args.place, args.page)
    page.write_text(text, encoding="utf-8")
    return 0


def prefix(page: str) -> str:
    """Return the prefix of the names of a page's pictures."""
    return page.removeprefix("measured_")


def markdown(
    found: Sequence[Record],
    own: str,
    drawn: Iterable[str],
    files: Files,
    place: str,
    page: str = PAGE,
) -> str:
    """The page.

    Args:
        found: the records.
        own: column of autofuse that is compared.
        drawn: names of the pictures.
        files: all files of this place.
        place: the machine or folder named on the command line.
        page: name of the page.
    """
    names, shown = list(drawn), shown_place(place)
    option = "" if page == PAGE else f" --page {page}"
    cards = " and ".join(dict.fromkeys(r["run"]["name"] for r in found))
    parts = [
        f"# Measured on {cards}",
        f"Made by `python benchmarks/gpu/report.py {shown}{option}` from {_source(place)}; do not edit.",
        *_about(found),
        "## Summary",
        *_summary(found, own),
        "## Rows by length",
        "Fraction of the roof; *inductor* is the better of its two modes.",
        *(_picture(n, page) for n in names if "ratio" not in n),
        *_lengths(found, (own,), INDUCTORS),
        *_libraries(files, own),
        "## Ratio to each peer",
        f"Time of the peer over that of {own}: right of 1 {own} is faster.",
        *(_picture(n, page) for n in names if "ratio" in n),
        *_small(found, own),
        *_dram(files),
        *_modelled(files, shown, found),
        *_misses(found, own),
        *_all_rows(found, own),
    ]
    return "\n\n".join(parts) + "\n"


def shown_place(place: str) -> str:
    """Return a machine, or a folder relative to the project root if it is inside."""
    if place in archive.machines():
        return place
    full = Path(place).resolve()
    return str(full.relative_to(ROOT)) if full.is_relative_to(ROOT) else full.name


def _source(place: str) -> str:
    kept = place in archive.machines()
    return f"`benchmarks/results/{place}.tar.xz`" if kept else "the files there"


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean; None without values."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def pictures(found: Sequence[Record], own: str) -> dict[str, str]:
    """Return name without the page's prefix -> SVG: fractions of the roof by length per operator, ratios per set."""
    out: dict[str, str] = {}
    forward = [r for r in found if r["sweep"] and not r["backward"]]
    for operator in dict.fromkeys(r["sweep"] for r in forward):
        panels: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for r in forward:
            if r["sweep"] != operator:
                continue
            for who, competitors in ((own, (own,)), ("inductor", INDUCTORS)):
                reached = of_roof(r, *competitors)
                if reached is not None:
                    panel = panels.setdefault(DTYPES[r["dtype"]], {})
                    panel.setdefault(who, []).append((r["shape"][1], reached))
        if panels:
            title = f"{operator}: fraction of the roof by row length, {own} and Inductor"
            out[f"{operator}.svg"] = charts.lines(title, panels)
    for name in AIMS:
        ratios = {r["name"]: _ratios(r, own) for r in found if r["set"] == name}
        known = {n: r for n, r in ratios.items() if r}
        if known:
            title = f"{TITLES[name]}: time of each peer over that of {own}"
            out[f"ratio_{name}.svg"] = charts.dots(title, known)
    return out


def _ratios(record: Record, own: str) -> dict[str, float]:
    known = {p: ratio(record, p, own=own) for p in PEERS}
    return {p: value for p, value in known.items() if value is not None}


def _picture(name: str, page: str) -> str:
    what = name.removeprefix(f"{prefix(page)}_").removesuffix(".svg").replace("_", " ")
    return f"![{what}](pictures/{name})"


def _about(found: Sequence[Record]) -> list[str]:
    """Return one line per device with its versions, and the method of measurement."""
    runs = [r["run"] for r in found]
    machines = dict.fromkeys(
        f"{u['name']}, driver {u.get('driver_version', '-')}, torch {u['torch']}, triton {u.get('triton', '-')}"
        for u in runs
    )
    rates = [u["copy_gbs"] for u in runs]
    return [
        "\n".join(f"- {m}" for m in machines),
        f"A copy of 2^28 float32 reached {min(rates):.0f} to {max(rates):.0f} GB/s (read and write) in these runs.",
        "*Roof* is the compulsory bytes (inputs, parameters and gradients of outputs once, results once) over the "
        "copy rate of the same run. Times are device time: medians over replays of a CUDA graph, or events around "
        "calls in a full queue where none can be captured. L2 is as the last call left it. All competitors of a row "
        "ran in one process. *max* is `max_autotune`, `max_autotune_pointwise` and `coordinate_descent_tuning`, "
        "tried where the default is below 0.93 of the roof.",
        "Every element of the last timed call was compared with float64. The error is max |result - right| / (eps "
        "(|right| + rms)). A time of autofuse counts only if its error is at most 4 (1 for 16-bit floats), or twice "
        "that of Inductor's default, or 1.25 times that of eager, which rounds between ops like autofuse, where one of "
        "these is more.",
    ]


def _summary(found: Sequence[Record], own: str) -> list[str]:
    wanted = [r for r in found if (of_roof(r, "inductor") or 0.0) < MAX_BELOW]
    tried = sum(time_of(r, "max") is not None for r in wanted)
    lines = [
        f"*max* was measured on {tried} of the {len(wanted)} rows where the default is below {MAX_BELOW} of the "
        "roof; on the others *the better* is the default.\n",
        f"Geometric means over rows of more than {SMALL_US:.0f} us at the roof, without pools.\n",
        "| set | rows | over default | aim | over the better | aim | below 0.95 of the better | without a time |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, (default_aim, better_aim) in AIMS.items():
        rows = [r for r in found if r["set"] == name and r["counted"] and r["roof_us"] > SMALL_US]
        default = _known(ratio(r, "inductor", own=own) for r in rows)
        better = _known(ratio(r, *INDUCTORS, own=own) for r in rows)
        if not rows:
            continue
        lines.append(
            f"| {TITLES[name]} | {len(better)} | {_number(geometric_mean(default))} | {_number(default_aim)} "
            f"| {_number(geometric_mean(better))} | {_number(better_aim)} "
            f"| {sum(b < LEAST_RATIO for b in better)} | {len(rows) - len(better)} |"
        )
    return ["\n".join(lines)]


def _lengths(found: Sequence[Record], *who: Sequence[str]) -> list[str]:
    """Return fractions of the roof by length, for the fastest of each group of competitors."""
    swept = [r for r in found if r["sweep"]]
    out = []
    for backward, title in ((False, "forward"), (True, "backward")):
        chosen = [r for r in swept if r["backward"] == backward]
        lengths = sorted({r["shape"][1] for r in chosen})
        if not chosen:
            continue
        lines = [
            f"| {title} | {' | '.join(map(str, lengths))} |",
            f"|---|{'--:|' * len(lengths)}",
        ]
        by_line: dict[str, dict[int, Record]] = {}
        for r in chosen:
            by_line.setdefault(f"{r['sweep']} {DTYPES[r['dtype']]}", {})[r["shape"][1]] = r
        for label, at in by_line.items():
            cells = [_fractions(at.get(n), who) for n in lengths]
            lines.append(f"| {label} | {' | '.join(cells)} |")
        out.append("\n".join(lines))
    return out


def _fractions(record: Record | None, who: Iterable[Sequence[str]]) -> str:
    if record is None:
        return ""
    return " / ".join(_number(of_roof(record, *group)) for group in who)


def _libraries(files: Files, own: str) -> list[str]:
    """Return the rows against kernel libraries, from the files of such runs."""
    beside = {n.removeprefix(LIBRARIES): d for n, d in files.items() if n.startswith(LIBRARIES)}
    found = latest(beside)
    if not found:
        return []
    means = []
    for peer in ("inductor", "quack", "liger"):
        ratios = _known(ratio(r, peer, own=own) for r in found)
        means.append(f"{_number(geometric_mean(ratios))} x {peer} ({len(ratios)} rows)")
    return [
        "## Rows beside QuACK and Liger",
        f"Fraction of the roof of {own} / QuACK / Liger, in runs of their own (`gpu/{LIBRARIES}` there), each "
        "where it has the operator and takes the length; `-` where it does not. QuACK is written in CuTe, and spreads "
        "long rows over clusters whose blocks read each other's shared memory, which Triton has no words for. "
        f"Geometric means of times over that of {own}: {', '.join(means)}.",
        *_lengths(found, (own,), ("quack",), ("liger",)),
    ]


def _dram(files: Files) -> list[str]:
    """Return the section on DRAM traffic of the rows, if ``dram.py`` has recorded it."""
    if DRAM not in files:
        return []
    rows = [r for r in json.loads(files[DRAM])["rows"] if r["bytes"] > 0]
    moved = [
        (sum(k["read"] + k["written"] for k in r["kernels"]) / r["bytes"], len(r["kernels"]), r)
        for r in rows
    ]
    more = sorted((m for m in moved if m[0] > DRAM_MOST), key=lambda m: -m[0])
    lines = ["| row | bytes over the compulsory | kernels |", "|---|--:|--:|"]
    lines += [f"| {r['name']} | {part:.2f} | {kernels} |" for part, kernels, r in more]
    return [
        "## Bytes to and from DRAM",
        f"Counted by Nsight Compute (`python benchmarks/gpu/dram.py`), which empties L2 before each kernel; what a "
        f"kernel leaves in L2 is not counted. {len(moved) - len(more)} of {len(moved)} rows move at most "
        f"{DRAM_MOST:.2f} of the compulsory bytes; the others:",
        "\n".join(lines),
    ]


def _small(found: Sequence[Record], own: str) -> list[str]:
    """Return the section on calls that move almost nothing: time on the device, and on the host."""
    rows = [r for r in found if r["roof_us"] <= SMALL_US]
    if not rows:
        return []
    shown = ("eager", "inductor", own)
    lines = [
        f"| us on the device, on the host | {' | '.join(shown)} |",
        f"|---|{'--:|' * len(shown)}",
    ]
    for r in rows:
        cells = [
            f"{_us(time_of(r, c))}, {_us(r['results'].get(c, {}).get('host_us'))}" for c in shown
        ]
        lines.append(f"| {r['name']} | {' | '.join(cells)} |")
    return ["## Small work", "\n".join(lines)]


def _modelled(files: Files, shown: str, found: Sequence[Record]) -> list[str]:
    """Return the section on modelled times of the rows, if ``model.py`` has written them."""
    if MODEL not in files:
        return []
    document = json.loads(files[MODEL])
    products = {r["name"] for r in found if r["set"] == "level2"}
    left_out = [name for name in document["left_out"] if name not in products]
    rows = sorted(document["rows"], key=lambda r: -abs(r["held_out"]))
    errors = [
        "| error: mean of abs(ln(modelled / measured)) | |",
        "|---|--:|",
        f"| with the figures of `autofuse targets {document['target']}` | {document['in']:.3f} |",
        f"| held out: figures fitted without all rows of the operator | {document['held_out']:.3f} |",
        f"| aim, held out | {MODEL_AIM:.2f} |",
        f"| bytes over the copy rate, and launches, alone | {document['bytes_only']:.3f} |",
    ]
    worst = ["| the worst, held out | measured us | modelled us, and what takes most | ln |"]
    worst.append("|---|--:|---|--:|")
    for r in rows[:10]:
        kernels = "; ".join(f"{us:.1f} {most}" for us, most in r["kernels"])
        worst.append(f"| {r['name']} | {_us(r['us'])} | {kernels} | {r['held_out']:+.2f} |")
    return [
        "## Modelled times",
        f"[The model of kernel time](triton.md#model-of-kernel-time) against {len(rows)} rows of "
        f"{document['operators']} operators, by `python benchmarks/gpu/model.py {shown} "
        f"--target {document['target']}`. Measured times are "
        "those of this page; kernels are those of the version that wrote the numbers. Of several kernels, sums are "
        "compared. Not compared, as they have no time for these kernels alone: "
        f"{', '.join(left_out) or 'none'}{', and those of level 2' if products else ''}.",
        "\n".join(errors),
        "\n".join(worst),
    ]


def _misses(found: Sequence[Record], own: str) -> list[str]:
    """Return the sections on rows that are slower than their aim, wrong, or without a time."""
    slow: list[tuple[float, Record]] = []
    low: list[tuple[float, Record]] = []
    for r in found:
        against, reached = ratio(r, *INDUCTORS, own=own), of_roof(r, own)
        if against is not None and against < LEAST_RATIO and r["roof_us"] > SMALL_US:
            slow.append((against, r))
        if reached is not None and r["aim"] is not None and reached < r["aim"]:
            low.append((reached / r["aim"], r))
    out = [f"## Rows below {LEAST_RATIO} of the better Inductor"]
    out += _listed(slow, lambda v, r: f"{r['name']}: {v:.2f}")
    out.append("## Rows below their aim")
    out += _listed(
        low, lambda v, r: f"{r['name']}: {v * r['aim']:.2f} of the roof; aim {r['aim']:.2f}"
    )
    out.append("## Rows without a time of autofuse, and why")
    reasons = [f"- {r['name']}: {_why(r, own)}" for r in found if time_of(r, own) is None]
    out.append("\n".join(reasons) or "None.")
    return out


def _listed(found: list[tuple[float, Record]], line: Callable[[float, Record], str]) -> list[str]:
    """Return the lines, worst first."""
    ordered = sorted(found, key=lambda entry: entry[0])
    return ["\n".join(f"- {line(v, r)}" for v, r in ordered) or "None."]


def _why(record: Record, own: str) -> str:
    result = record["results"].get(own)
    if result is None:
        return "not measured"
    if "errors" in result:
        return f"wrong: error {max(result['errors']):.3g}"
    text = str(result.get("failed") or result.get("skipped"))
    return text.splitlines()[0].replace("|", "/") if text else "no reason"


def _all_rows(found: Sequence[Record], own: str) -> list[str]:
    out = []
    for name in AIMS:
        rows = [r for r in found if r["set"] == name]
        if not rows:
            continue
        present = [c for c in (*PEERS, own) if any(time_of(r, c) is not None for r in rows)]
        head = ["", "roof", *present, "of roof", "default / own", "better / own"]
        lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
        for r in rows:
            cells = [r["name"], _us(r["roof_us"]), *(_us(time_of(r, c)) for c in present)]
            cells += [_number(of_roof(r, own)), _number(ratio(r, "inductor", own=own))]
            cells.append(_number(ratio(r, *INDUCTORS, own=own)))
            lines.append(f"| {' | '.join(cells)} |")
        out += [f"## {TITLES[name]} (us)", "\n".join(lines)]
    return out


def _known(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
