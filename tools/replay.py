"""Generate the same graphs at two revisions and report the differences.

    make replay                        the working tree against the merge base, or the previous commit
    make replay BASE=v1.2 FULL=1       against another revision; all graphs of the AKG corpus, not every 10th
    make replay BASE=v1.2 HEAD=main    two revisions, neither of which is the working tree

A safety net for changes that should change nothing, or a single thing.  The graphs come from head:
``tests/snapshot/graphs``, ``examples`` and the AKG corpus next to the checkout, for every target.  Each side runs in
its own source tree and process (``replay_side.py``), with the packages of the current environment and only through
the public interface.

Everything is compared except the version of autofuse in the first line of a file and in the metadata.  A graph that a
side refuses is compared by the codes and messages of its diagnostics.

Exit status 0: no differences, or no history to compare with; 1: differences; 2: the comparison failed.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_paths
from types import FrameType

from replay_compare import compare, report

REPO = Path(__file__).resolve().parent.parent
FOLDERS = ("tests/snapshot/graphs", "examples")
#: Step through the corpus, unless all of it is requested.
EVERY = 10


class ReplayError(Exception):
    """The comparison cannot be made."""


@dataclass(frozen=True, slots=True)
class Side:
    """A source tree and its output folder."""

    name: str
    words: str
    tree: Path
    out: Path


def git(*args: str) -> str:
    """Return the output of git, stripped.

    Raises:
        ReplayError: it failed; the message is git's own.
    """
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    # Ignore a git in the current folder, which an empty entry of PATH means.
    path = os.pathsep.join(p for p in os.get_exec_path() if Path(p).is_absolute())
    program = shutil.which("git", path=path)
    if program is None:
        raise ReplayError("git cannot be run: there is no such program")
    # The repository's hooks are for commits by developers.
    command = [program, "-c", f"core.hooksPath={os.devnull}", "-C", str(REPO), *args]
    try:
        done = subprocess.run(command, env=environ, capture_output=True, text=True)
    except OSError as e:
        raise ReplayError(f"git cannot be run: {e}") from e
    if done.returncode:
        raise ReplayError(done.stderr.strip() or f"git {args[0]} ended with {done.returncode}")
    return done.stdout.strip()


def commit_of(revision: str) -> str | None:
    """Return the full name of a commit; None if there is none."""
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}")
    except ReplayError:
        return None


def default_base(head: str) -> tuple[str, str] | None:
    """Return the default commit to compare with, and the reason; None without history."""
    for branch in ("origin/HEAD", "origin/main", "origin/master"):
        if commit_of(branch) is None:
            continue
        try:
            found = git("merge-base", branch, head)
        except ReplayError:  # The two have no common commit, or a shallow clone lacks it.
            break
        if found != commit_of(head):
            return found, f"merge base with {branch}"
        break
    before = commit_of(f"{head}^")
    return None if before is None else (before, f"{head}^")


def why_no_history() -> str | None:
    """Return why revisions cannot be resolved at all; None if they can."""
    try:
        top = git("rev-parse", "--show-toplevel")
        if Path(top).resolve() != REPO:
            return f"{REPO} is no git repository of its own"
        git("rev-parse", "--verify", "HEAD")
    except ReplayError as e:
        return str(e).splitlines()[0]
    return None


@contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Path]:
    """Check out the files of a revision in a worktree for the duration of the context."""
    try:
        git("worktree", "add", "--quiet", "--detach", str(folder), revision)
        yield folder
    finally:
        # A second Ctrl-C would leave the worktree in place.
        with _undisturbed():
            shutil.rmtree(folder, ignore_errors=True)
            listed = git("worktree", "list", "--porcelain").splitlines()
            if f"worktree {folder}" in listed:
                git("worktree", "remove", "--force", str(folder))


@contextmanager
def _undisturbed() -> Iterator[None]:
    before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def graphs_of(tree: Path, full: bool) -> list[tuple[str, str]]:
    """Return the name and path of every graph."""
    found = [
        (f"{folder}/{p.name}", str(p))
        for folder in FOLDERS
        for p in sorted((tree / folder).glob("*.json"))
    ]
    if not found:
        raise ReplayError(f"no graph in {' or '.join(FOLDERS)} of {tree}")
    shared = Path(os.environ.get("AUTOFUSE_SHARED") or REPO.parent / "shared")
    corpus = shared / "corpus" / "akg"
    if not corpus.is_dir():
        print(
            f"without the AKG corpus: there is no folder {corpus} (AUTOFUSE_SHARED names another place)"
        )
        return found
    paths = sorted(corpus.rglob("*.json"))[:: 1 if full else EVERY]
    return found + [(f"akg/{p.relative_to(corpus)}", str(p)) for p in paths]


def extension_for(src: Path) -> str:
    """Return the compiled extension of the current environment, for a tree without one; empty if there is none."""
    for folder in (src, REPO / "src", *map(Path, sys.path)):
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = folder / "autofuse" / f"_twin{suffix}"
            if path.is_file():
                return "" if folder == src else str(path)
    return ""


def search_of(side: Side) -> str:
    """Compile ``autofuse._tiling`` of a tree; empty if the tree has none.

    Raises:
        ReplayError: it cannot be compiled.
    """
    source = side.tree / "runtime" / "bindings" / "tiling.cpp"
    if not source.is_file():
        return ""
    from pybind11 import get_include

    built = side.out.with_suffix(".so")
    folders = (side.tree / "host_templates" / "headers", get_include(), get_paths()["include"])
    command = ["-std=c++17", "-O2", "-shared", "-fPIC", "-ffp-contract=off"]
    command += [*(f"-I{f}" for f in folders), str(source), "-o", str(built)]
    done = subprocess.run([os.environ.get("CXX", "g++"), *command], capture_output=True, text=True)
    if done.returncode:
        raise ReplayError(f"{side.name} ({side.words}): {source.name}: {done.stderr[-2000:]}")
    return str(built)


def generate(side: Side, graphs: Sequence[tuple[str, str]], jobs: int, seconds: int) -> None:
    """Run a side on all graphs.

    Raises:
        ReplayError: the run failed.
    """
    src = side.tree / "src"
    here = str(Path(__file__).resolve().parent)
    job = {
        "src": str(src),
        "packages": [
            p for p in sys.path if p != here and Path(p).is_dir() and Path(p).is_absolute()
        ],
        "extension": extension_for(src),
        "search": search_of(side),
        "graphs": graphs,
        "jobs": jobs,
        "seconds": seconds,
        "out": str(side.out),
    }
    order, errors = side.out.with_suffix(".job"), side.out.with_suffix(".errors")
    order.write_text(json.dumps(job), encoding="utf-8")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AUTOFUSE_"))}
    # Both sides use the same hash order, so differences come from the code.  Reproducers of bugs stay here.
    environ |= {"PYTHONHASHSEED": "0", "AUTOFUSE_CACHE_DIR": str(side.out.with_suffix(".cache"))}
    script = Path(__file__).resolve().with_name("replay_side.py")
    # Separate bytecode: a file changed within a second to one of equal length would use the stale bytecode.
    bytecode = f"pycache_prefix={side.out.with_suffix('.bytecode')}"
    command = [sys.executable, "-S", "-s", "-X", bytecode, str(script), str(order)]
    start = time.perf_counter()
    with errors.open("w") as stderr, _own_group(command, environ, stderr.fileno()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if sys.stderr.isatty():
                print(f"\r{side.name}: {line.strip()} of {len(graphs)}", end="", file=sys.stderr)
        code = process.wait()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if code or not (side.out / "index.json").is_file():
        tail = errors.read_text(errors="replace").strip().splitlines()[-12:]
        raise ReplayError(
            "\n".join([f"{side.name} ({side.words}) ended with status {code}", *tail])
        )
    took = time.perf_counter() - start
    print(f"{side.name}: {len(graphs)} graphs in {took:.1f} s", file=sys.stderr)


@contextmanager
def _own_group(
    command: Sequence[str], environ: dict[str, str], stderr: int
) -> Iterator[subprocess.Popen[str]]:
    """Start a process that Ctrl-C does not reach; it and its children end with the context."""
    process = subprocess.Popen(
        command,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with _undisturbed():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def replay(args: argparse.Namespace, base: str, why: str, folder: Path) -> int:
    """Generate both sides, print the differences, and return the exit status."""
    with worktree(base, folder / "replay-base") as old:
        if args.head is None:
            return _compared(args, (base, why, old), (_words_of_tree(), REPO), folder)
        with worktree(args.head, folder / "replay-head") as new:
            return _compared(args, (base, why, old), (args.head, new), folder)


def _words_of_tree() -> str:
    edited = git("status", "--porcelain", "--untracked-files=normal")
    return f"the working tree, {git('rev-parse', '--short', 'HEAD')}" + (
        " with edits" if edited else ""
    )


def _compared(
    args: argparse.Namespace, base: tuple[str, str, Path], head: tuple[str, Path], folder: Path
) -> int:
    short = git("rev-parse", "--short", base[0])
    sides = (
        Side(
            "base", short if base[1] == short else f"{short}, {base[1]}", base[2], folder / "base"
        ),
        Side("head", head[0], head[1], folder / "head"),
    )
    for side in sides:
        print(f"{side.name}: {side.words}", flush=True)
    graphs = graphs_of(head[1], args.full)
    for side in sides:
        generate(side, graphs, args.jobs, args.seconds)
    found = compare(sides[0].out, sides[1].out, [name for name, _ in graphs], args.jobs)
    for side in sides:
        if json.loads((side.out / "index.json").read_text(encoding="utf-8"))["foreign_extension"]:
            print(
                f"{side.name} used the compiled extension of this environment, not one of its own"
            )
    print(report(found, args.diffs))
    return 0 if found.same else 1


def positive(text: str) -> int:
    """Parse an integer of at least 1, for argparse."""
    n = int(text)
    if n < 1:
        raise argparse.ArgumentTypeError(f"{n} is less than 1")
    return n


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", metavar="REV", help="default: merge base with origin, or HEAD^")
    parser.add_argument("--head", metavar="REV", help="default: the working tree as it is on disk")
    parser.add_argument("--full", action="store_true", help="all graphs of the AKG corpus")
    parser.add_argument("--jobs", type=positive, default=2, help="processes (default 2)")
    parser.add_argument("--diffs", type=positive, default=5, help="shown at most (default 5)")
    parser.add_argument(
        "--seconds", type=positive, default=120, help="for a graph and a target (default 120)"
    )
    return parser.parse_args(argv)


def _terminated(number: int, _frame: FrameType | None) -> None:
    """End as by Ctrl-C, removing temporary files."""
    sys.exit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script and return the exit status."""
    args = arguments(argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        reason = why_no_history()
        if reason is not None and args.base is None:
            print(f"nothing to compare with: {reason}")
            return 0
        for revision in filter(None, (args.base, args.head)):
            if commit_of(revision) is None:
                raise ReplayError(f"{revision} is no commit of {REPO}")
        chosen = (args.base, args.base) if args.base else default_base(args.head or "HEAD")
        if chosen is None:
            print("nothing to compare with: the history has no earlier commit")
            return 0
        with tempfile.TemporaryDirectory(prefix="autofuse-replay-") as folder:
            return replay(args, chosen[0], chosen[1], Path(folder).resolve())
    except ReplayError as e:
        print(f"replay failed: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
