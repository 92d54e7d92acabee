"""Names of the files of the first stage."""

from __future__ import annotations

from autofuse.implgraph.ir.names import identifier

__all__ = ["DEFINITION_DOCUMENT", "DEFINITION_JSON", "definition_files"]

#: The definition for people and for programs.
DEFINITION_DOCUMENT, DEFINITION_JSON = "definition.md", "definition.json"


def definition_files(name: str, *, seed_names: bool = False) -> tuple[str, str]:
    """Return the file names of the document and of its JSON.

    Args:
        name: name of the operator.
        seed_names: name the document after the operator, as the write-up of the flow does; the JSON, which the
            write-up does not name, likewise.
    """
    if not seed_names:
        return DEFINITION_DOCUMENT, DEFINITION_JSON
    word = identifier(name)
    return f"{word}算子定义文档.md", f"{word}算子定义文档.json"
