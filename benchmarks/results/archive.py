"""Measured results: one compressed archive per machine, beside this file.

    python benchmarks/results/archive.py list h200
    python benchmarks/results/archive.py extract h200 [NAME ...] --out FOLDER
    python benchmarks/results/archive.py add h200 gpu/sweep.jsonl=FOLDER/sweep.jsonl [NAME=FILE ...]
    python benchmarks/results/archive.py remove h200 gpu/sweep.jsonl [NAME ...]

Benchmarks write into folders; ``add`` keeps a file of them, and takes the place of one of that name.  An archive is
the same bytes, whoever writes it and when.
"""

from __future__ import annotations

import argparse
import io
import lzma
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

FOLDER = Path(__file__).resolve().parent
_SUFFIX = ".tar.xz"


def machines(folder: Path = FOLDER) -> list[str]:
    """The machines that there are results of."""
    return sorted(p.name.removesuffix(_SUFFIX) for p in folder.glob(f"*{_SUFFIX}"))


def names(machine: str, folder: Path = FOLDER) -> list[str]:
    """Names of a machine's files, sorted.

    Raises:
        FileNotFoundError: there is no archive of this machine.
    """
    return list(_contents(machine, folder))


def read(machine: str, name: str, folder: Path = FOLDER) -> bytes:
    """A file of a machine.

    Raises:
        FileNotFoundError: there is no archive of this machine.
        KeyError: it has no file of this name.
    """
    there = _contents(machine, folder)
    _known(machine, (name,), there)
    return there[name]


def files(place: str | Path, under: str, folder: Path = FOLDER) -> dict[str, bytes]:
    """Name -> content of all that a machine has in one folder of its archive; names are those within it.

    Args:
        place: a machine; or a folder of the disk, of which all files are taken.
        under: the folder of the archive.
        folder: of the archives.
    """
    if str(place) in machines(folder):
        found = _contents(str(place), folder)
        return {
            n.removeprefix(f"{under}/"): d for n, d in found.items() if n.startswith(f"{under}/")
        }
    root = Path(place)
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def extract(machine: str, out: Path, wanted: Sequence[str] = (), folder: Path = FOLDER) -> None:
    """Write files of a machine into a folder, under their names.

    Raises:
        FileNotFoundError: there is no archive of this machine.
        KeyError: it has no file of one of these names.
    """
    there = _contents(machine, folder)
    _known(machine, wanted, there)
    for name in wanted or there:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(there[name])


def add(machine: str, new: Mapping[str, bytes], folder: Path = FOLDER) -> None:
    """Put files into a machine's archive, a new one if there is none.

    Raises:
        ValueError: a name is no relative path with ``/``.
    """
    for name in new:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or str(path) != name or name == ".":
            raise ValueError(f"{name!r} is no name of a file in an archive")
    there = _contents(machine, folder) if machine in machines(folder) else {}
    _write(machine, {**there, **new}, folder)


def remove(machine: str, gone: Sequence[str], folder: Path = FOLDER) -> None:
    """Take files out of a machine's archive.

    Raises:
        FileNotFoundError: there is no archive of this machine.
        KeyError: it has no file of one of these names.
    """
    there = _contents(machine, folder)
    _known(machine, gone, there)
    _write(machine, {n: data for n, data in there.items() if n not in gone}, folder)


def _known(machine: str, wanted: Sequence[str], there: Mapping[str, bytes]) -> None:
    for name in wanted:
        if name not in there:
            raise KeyError(f"there is no {name} in the archive of {machine}")


def _contents(machine: str, folder: Path) -> dict[str, bytes]:
    if machine not in machines(folder):
        raise FileNotFoundError(f"there are results of {machines(folder)}, not of {machine}")
    with tarfile.open(folder / f"{machine}{_SUFFIX}", "r:xz") as tar:
        found = ((m.name, tar.extractfile(m)) for m in tar)
        return {name: data.read() for name, data in found if data is not None}


def _write(machine: str, contents: Mapping[str, bytes], folder: Path) -> None:
    """Write an archive of names and contents alone: no times, no owners, and in the order of the names."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size = len(contents[name])
            tar.addfile(entry, io.BytesIO(contents[name]))
    data = lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    (folder / f"{machine}{_SUFFIX}").write_bytes(data)


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    listing = verbs.add_parser("list", help="print sizes and names of the files")
    extracting = verbs.add_parser("extract", help="write files into a folder")
    adding = verbs.add_parser("add", help="put files into the archive")
    removing = verbs.add_parser("remove", help="take files out of the archive")
    for verb in (listing, extracting, adding, removing):
        verb.add_argument("machine", help=f"now there are {', '.join(machines()) or 'none'}")
    extracting.add_argument("names", metavar="NAME", nargs="*", help="all without any")
    extracting.add_argument("--out", type=Path, required=True, help="the folder")
    adding.add_argument("files", metavar="NAME=FILE", nargs="+", help="name there, file here")
    removing.add_argument("names", metavar="NAME", nargs="+")
    args = parser.parse_args(words)
    try:
        if args.verb == "list":
            for name, data in _contents(args.machine, FOLDER).items():
                print(f"{len(data):10,}  {name}")
        elif args.verb == "extract":
            extract(args.machine, args.out, args.names, FOLDER)
        elif args.verb == "add":
            pairs = [word.partition("=") for word in args.files]
            add(args.machine, {name: Path(file).read_bytes() for name, _, file in pairs}, FOLDER)
        else:
            remove(args.machine, args.names, FOLDER)
    except (KeyError, OSError, ValueError) as e:
        print(f"{parser.prog}: {e.args[0] if len(e.args) == 1 else e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
