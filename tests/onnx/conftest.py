"""``--onnx-full`` runs every node test of the ONNX standard; without it, a sample."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--onnx-full", action="store_true", help="run all node tests of ONNX, not a sample"
    )
