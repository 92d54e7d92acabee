"""Differences between the two sides of ``replay.py``, from the output of ``replay_side.py`` for each."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

#: Maximum lines kept of one diff.
SHOWN_LINES = 24
#: Maximum number of file kinds counted separately.
SHOWN_FILES = 12


@dataclass(frozen=True, slots=True)
class Difference:
    """One file that differs, or a graph whose outcome differs.

    Attributes:
        graph: its name in the report.
        target: the chip.
        file: path in the output folder, with ``*`` for the kernel; empty if the sides disagree
            on whether the graph is built, refused or a bug.
        added: lines only in head.
        removed: lines only in base.
        text: the diff, or its beginning.
        alike: equal for diffs that change the same lines, up to names and digests.
    """

    graph: str
    target: str
    file: str
    added: int
    removed: int
    text: str
    alike: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        graphs: number of graphs.
        targets: targets on both sides.
        only: target -> the only side that has it.
        kinds: outcome, if both sides agree -> number of (graph, target) pairs.
        changed: pairs that both sides built differently -> the differing files.
        unequal: pairs that only one side built, or that were refused with different messages.
    """

    graphs: int
    targets: tuple[str, ...]
    only: Mapping[str, str]
    kinds: Counter[str] = field(default_factory=Counter)
    changed: dict[tuple[str, str], list[Difference]] = field(default_factory=dict)
    unequal: dict[tuple[str, str], Difference] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """True if nothing differs."""
        return not (self.only or self.changed or self.unequal)

    def differences(self) -> Iterator[Difference]:
        """Yield all differences, in order."""
        yield from self.unequal.values()
        for files in self.changed.values():
            yield from files


def compare(base: Path, head: Path, names: Sequence[str], jobs: int) -> Comparison:
    """Compare two folders that ``replay_side.py`` wrote for the same graphs."""
    indices = [
        json.loads((side / "index.json").read_text(encoding="utf-8")) for side in (base, head)
    ]
    old, new = (index["graphs"] for index in indices)
    targets = tuple(t for t in indices[1]["targets"] if t in indices[0]["targets"])
    only = {t: "base" for t in indices[0]["targets"] if t not in targets}
    only |= {t: "head" for t in indices[1]["targets"] if t not in targets}
    found = Comparison(len(names), targets, only)
    wanted: dict[int, list[str]] = {}
    for number in range(len(names)):
        for t in targets:
            if old[number][t][:2] != new[number][t][:2]:
                wanted.setdefault(number, []).append(t)
            else:
                found.kinds[new[number][t][0]] += 1
    work = partial(_differences, base, head)
    with ProcessPoolExecutor(jobs) as pool:
        tasks = [(n, names[n], ts, old[n], new[n]) for n, ts in wanted.items()]
        for task, rows in zip(tasks, pool.map(work, tasks, chunksize=4), strict=True):
            _, name, _, was, now = task
            for d in rows:
                if was[d.target][0] == now[d.target][0] == "built":
                    found.changed.setdefault((name, d.target), []).append(d)
                else:
                    found.unequal[name, d.target] = d
    return found


def _differences(
    base: Path,
    head: Path,
    task: tuple[int, str, Sequence[str], Mapping[str, Any], Mapping[str, Any]],
) -> list[Difference]:
    """Return the differences of one graph."""
    number, name, targets, was, now = task
    sides = _Texts(base, number), _Texts(head, number)
    found = []
    for target in targets:
        old, new = (side.files[target] for side in sides)
        kinds = was[target][0], now[target][0]
        kernel = now[target][2] or was[target][2] or Path(name).stem
        if kinds[0] != kinds[1]:
            text = "\n".join(
                f"{mark} {kind}" + ("" if kind == "built" else f": {_first_line(side, target)}")
                for mark, kind, side in zip("-+", kinds, sides, strict=True)
            )
            found.append(Difference(name, target, "", 0, 0, text, _alike(kernel, text.split("\n"))))
            continue
        for file in sorted(old.keys() | new.keys()):
            if old.get(file) == new.get(file):
                continue
            texts = tuple(side.text(target, file) for side in sides)
            added, removed, lines = _diff(*texts)
            shown = [
                f"--- base/{file}" if file in old else "--- no file",
                f"+++ head/{file}" if file in new else "+++ no file",
                *lines[:SHOWN_LINES],
            ]
            if len(lines) > SHOWN_LINES:
                shown.append(f"... {len(lines) - SHOWN_LINES} more lines")
            alike = _alike(kernel, [x for x in lines if not x.startswith((" ", "@@"))])
            role = re.sub(rf"(^|/){re.escape(kernel)}(?=[_.])", r"\1*", file)
            found.append(Difference(name, target, role, added, removed, "\n".join(shown), alike))
    return found


class _Texts:
    """The texts of one graph on one side."""

    def __init__(self, side: Path, number: int) -> None:
        data = json.loads(zlib.decompress((side / "records" / f"{number}.z").read_bytes()))
        self.side = side
        self.files: dict[str, dict[str, str]] = data["files"]
        self.texts: dict[str, str] = data["texts"]

    def text(self, target: str, file: str) -> str:
        """Return the text of a file; empty if it is missing."""
        digest = self.files[target].get(file)
        if digest is None:
            return ""
        if digest in self.texts:
            return self.texts[digest]
        data = (self.side / "shared" / digest).read_bytes()
        return zlib.decompress(data).decode("utf-8", "surrogatepass")


def _first_line(side: _Texts, target: str) -> str:
    (file,) = side.files[target]
    return side.text(target, file).partition("\n")[0]


@lru_cache(maxsize=256)
def _diff(old: str, new: str) -> tuple[int, int, tuple[str, ...]]:
    """Return lines added, lines removed, and the diff without its head; cached, because all graphs share headers."""
    a, b = _lines(old), _lines(new)
    # Do not treat frequent lines (blank lines, brackets) as junk.
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(2):
        lines.append(f"@@ -{group[0][1] + 1} +{group[0][3] + 1} @@")
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                lines += [f" {x}" for x in a[i:i_end]]
            else:
                lines += [f"-{x}" for x in a[i:i_end]] + [f"+{x}" for x in b[j:j_end]]
    added = sum(x.startswith("+") for x in lines)
    return added, sum(x.startswith("-") for x in lines), tuple(lines)


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [*lines, f"{last} (no newline at the end)"] if last else lines


def _alike(kernel: str, lines: Sequence[str]) -> str:
    """Return a digest of changed lines, without the kernel's name and other text specific to a graph."""
    text = "\n".join(lines).replace(kernel, "*")
    text = re.sub(r"\b[0-9a-f]{16,}\b", "H", text)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def report(found: Comparison, most: int) -> str:
    """Return the counts, then the first ``most`` distinct diffs."""
    pairs = found.graphs * len(found.targets)
    kernels = found.kinds["built"] + len(found.changed)
    lines = [
        f"{found.graphs} graphs for {len(found.targets)} targets: {pairs} results compared",
        f"  {kernels} kernels at both sides, {len(found.changed)} differ",
        f"  {found.kinds['refused']} refused at both sides alike",
    ]
    if found.kinds["failed"]:
        lines.append(f"  {found.kinds['failed']} failed at both sides alike (a bug of autofuse)")
    if found.unequal:
        lines.append(f"  {len(found.unequal)} built at one side only, or refused in other words")
    lines += [f"  target {t}: at {side} only" for t, side in found.only.items()]
    if found.same:
        return "\n".join([*lines, "no difference"])
    files = [d for rows in found.changed.values() for d in rows]
    if files:
        graphs = len({graph for graph, _ in found.changed})
        added, removed = sum(d.added for d in files), sum(d.removed for d in files)
        lines.append(
            f"differences: {len(files)} files of {len(found.changed)} kernels of {graphs} graphs, "
            f"+{added} -{removed} lines"
        )
        by_file = Counter(d.file for d in files).most_common()
        lines += [f"  {n:6} {file}" for file, n in by_file[:SHOWN_FILES]]
        if len(by_file) > SHOWN_FILES:
            lines.append(f"  {sum(n for _, n in by_file[SHOWN_FILES:]):6} others")
    return "\n".join([*lines, *_first_diffs(found, most)])


def _first_diffs(found: Comparison, most: int) -> Iterator[str]:
    groups: dict[tuple[str, str], list[Difference]] = {}
    for d in found.differences():
        groups.setdefault((d.file, d.alike), []).append(d)
    for first, *others in list(groups.values())[:most]:
        where = f"{first.graph} for {first.target}"
        yield f"\n== {where}" + (f", and {len(others)} more of the same" if others else "")
        yield first.text
    if len(groups) > most:
        yield f"\n{len(groups) - most} more kinds of differences are not shown"
