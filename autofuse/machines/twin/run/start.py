"""Start-up program of a worker process: it gives the worker the modules of its parent.

It runs by path and with ``python -I -S``, so that neither the current folder nor variables such as PYTHONPATH affect
imports. Modules come from the parent's paths, and autofuse is the parent's.
"""

from __future__ import annotations

import importlib.util
import json
import sys

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Run a worker.

    Args:
        argv: locations of modules, as JSON (``path``: for ``sys.path``; ``autofuse``: the file of the package;
            ``folders``: of the package); then the worker's arguments.
    """
    modules = json.loads(argv[0])
    # Python's own entries go last: a folder of installed packages may be the current one.
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
