"""The program that a worker process begins with: it gives the worker the modules of its parent.

It is run by its path and with ``python -I -S``, so that neither the current folder nor variables such as PYTHONPATH say
what is imported.  Where the parent found its modules says it instead, and autofuse is the very one of the parent.
"""

from __future__ import annotations

import importlib.util
import json
import sys

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Be a worker.

    Args:
        argv: where modules are, as JSON (``path``: for ``sys.path``; ``autofuse``: the file of the package;
            ``folders``: of the package); then what the worker wants.
    """
    modules = json.loads(argv[0])
    # What Python finds by itself goes last: a folder of installed packages may be the current one.
    own = [p for p in sys.path if p not in modules["path"]]
    sys.path[:] = [*modules["path"], *own]
    spec = importlib.util.spec_from_file_location(
        "autofuse", modules["autofuse"], submodule_search_locations=modules["folders"]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["autofuse"] = package
    spec.loader.exec_module(package)

    from autofuse.machines.twin.run import worker

    return worker.main(argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
