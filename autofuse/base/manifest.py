"""``manifest.json`` of a folder of generated files: their digests, and the user's edits.

A manifest is untrusted input. A name that leads out of the folder is not one of its files, and one that leads out
through a symbolic link is refused (:func:`check_inside`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from autofuse.base import reading
from autofuse.base.diagnostics import AutofuseError, Where

__all__ = [
    "GENERATED",
    "MANIFEST",
    "SCHEMA",
    "Edit",
    "Manifest",
    "check_inside",
    "digest",
    "is_inside",
    "read_manifest",
    "underneath",
]

MANIFEST = "manifest.json"
SCHEMA = "autofuse.manifest/1"
#: The folder with the generated text of edited files.
GENERATED = "generated"

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Edit:
    """A generated file that the user edited and keeps.

    Attributes:
        generated: digest of the generated text that was edited.
        edited: digest of the text when it was adopted; it may have been edited since.
    """

    generated: str
    edited: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a manifest; empty if the file is missing or has another format.

    Attributes:
        files: path inside the folder -> digests that the generated file may have; several during a write.
        edits: path -> the edit that the user keeps.  The generated text is in ``files`` as :func:`underneath` of it.
        becoming: True if a process was killed during a write.
    """

    files: Mapping[str, set[str]] = field(default_factory=dict)
    edits: Mapping[str, Edit] = field(default_factory=dict)
    becoming: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the generated files, edited or not, without the texts underneath edits."""
        under = {underneath(n) for n in self.edits}
        return tuple(sorted({*(n for n in self.files if n not in under), *self.edits}))

    def text(self) -> str:
        """Return the text of the manifest; one digest per file unless a write is under way."""
        edits = {
            n: {"generated": e.generated, "edited": e.edited} for n, e in sorted(self.edits.items())
        }
        what: dict[str, Any]
        if self.becoming:
            what = {"becoming": {n: sorted(d) for n, d in sorted(self.files.items())}}
        else:
            what = {"files": {n: min(d) for n, d in self.files.items()}}
        content = {"schema": SCHEMA, **what, **({"edited": edits} if edits else {})}
        return json.dumps(content, indent=2) + "\n"


def digest(data: str | bytes) -> str:
    """Return the sha256 of a text (as UTF-8) or of bytes, in hex."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def underneath(name: str) -> str:
    """Return the path of the generated text of an edited file."""
    return f"{GENERATED}/{name}"


def is_inside(name: str) -> bool:
    """Return True if a name in a manifest is a path inside the folder, and not the manifest itself."""
    path = PurePosixPath(name)
    plain = "\0" not in name and "\\" not in name
    return (
        plain
        and not path.is_absolute()
        and ".." not in path.parts
        and str(path) == name != MANIFEST
    )


def check_inside(root: Path, names: Iterable[str], code: str = "AF1001") -> None:
    """Refuse files that lead out of their folder through a symbolic link.

    Raises:
        AutofuseError: with ``code``, for the first of these.
    """
    home = root.resolve()
    for name in names:
        try:
            found = (root / name).resolve()
        except (OSError, RuntimeError):  # a cycle of links
            found = None
        if found is None or home not in found.parents:
            raise AutofuseError.of(
                code,
                f"{name} leads out of the folder by a symbolic link",
                where=Where(path=str(root)),
                hint="remove the link: autofuse reads and writes only inside the folder",
            )


def read_manifest(root: Path) -> Manifest:
    """Return the manifest of a folder, or an empty one if the file is missing or invalid."""
    try:
        content = json.loads(reading.text(root / MANIFEST))
        if content["schema"] != SCHEMA:
            return Manifest()
        becoming = "becoming" in content
        if becoming:
            found = {str(k): set(map(str, v)) for k, v in content["becoming"].items()}
        else:
            found = {str(k): {str(v)} for k, v in content["files"].items()}
        edits = {
            str(k): Edit(str(v["generated"]), str(v["edited"]))
            for k, v in content.get("edited", {}).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Manifest()
    return Manifest(
        {k: v for k, v in found.items() if is_inside(k)},
        {
            k: e
            for k, e in edits.items()
            if is_inside(k) and _DIGEST.fullmatch(e.generated) and _DIGEST.fullmatch(e.edited)
        },
        becoming,
    )
