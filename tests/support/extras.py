"""Marks for tests that need an optional package, and the selection of ``make test-extras``.

``make test`` installs none of ``BEYOND``, so tests that need one of these skip there and run in ``make test-extras``.
"""

import importlib.util

import pytest

#: The extra of ``ascend-autofuse`` that installs each package.
EXTRAS = {
    "torch": "gpu",
    "triton": "gpu",
    "distributed": "cluster",
    "nvcc": "witness",
    "onnxruntime": "onnxruntime",
    "onnx": "onnx",
    "markdown": "docs",
    "material": "docs",
    "z3": "dev",
    "jsonschema": "dev",
    "expecttest": "dev",
}
#: Packages that ``make test`` does not install.
BEYOND = ("torch", "triton", "distributed", "nvcc", "onnxruntime")
#: Fixtures that run Triton kernels, or stand for what runs them.
_IN_TRITON = {"interpreter", "triton_installed"}


def installed(name: str) -> bool:
    """Return whether a package can be imported, or nvcc be found."""
    if name != "nvcc":
        try:
            return importlib.util.find_spec(name) is not None
        except ValueError:  # sys.modules[name] is None: made unimportable
            return False
    from autofuse.base.diagnostics import AutofuseError
    from autofuse.machines.witness import nvcc

    try:
        nvcc.find_nvcc()
    except AutofuseError:
        return False
    return True


def lack(*names: str) -> str | None:
    """Return the reason to skip a test that needs ``names``, with the command to install them; None if all are here."""
    missing = [n for n in names if not installed(n)]
    if not missing:
        return None
    wanted = ",".join(dict.fromkeys(EXTRAS[n] for n in missing))
    return f"needs {' and '.join(missing)}: pip install 'ascend-autofuse[{wanted}]'"


def needs(*names: str) -> pytest.MarkDecorator:
    """Return a mark: the test is skipped where one of ``names`` is missing."""
    return pytest.mark.needs(*names)


def required(*names: str) -> pytest.MarkDecorator:
    """Skip the calling module where one of ``names`` is missing; return the mark of its tests.

    To be assigned to ``pytestmark`` above the imports that need the packages.
    """
    if reason := lack(*names):
        pytest.skip(reason, allow_module_level=True)
    return needs(*names)


def needed(item: pytest.Item) -> frozenset[str]:
    """Return the packages that a test needs, from its marks and fixtures."""
    found = {name for mark in item.iter_markers("needs") for name in mark.args}
    if item.get_closest_marker("triton") or _IN_TRITON & set(getattr(item, "fixturenames", ())):
        found |= {"torch", "triton"}
    return frozenset(found)
