"""``build --entry torch`` on the command line; what it writes is built and called in tests/torch."""

from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples" / "torch"
FORWARD, BACKWARD = EXAMPLES / "swish.json", EXAMPLES / "swish_backward.json"


def test_the_folder_and_what_to_do_next(autofuse: Callable, tmp_path: Path) -> None:
    words = ("--entry", "torch", "--backward", BACKWARD, "-o", "out", "--json")
    # With CANN at hand it is the extension's own build that compiles.
    done = autofuse("build", FORWARD, *words, ASCEND_HOME_PATH=str(tmp_path))
    found = done.json()["result"]
    assert (done.code, found["compiled"]["done"]) == (0, False)
    assert found["compiled"]["why"].endswith("pip install --no-build-isolation out")
    assert (tmp_path / "out" / "autofuse_swish" / "__init__.py").is_file()
    assert (tmp_path / "out" / "parts" / "swish_backward" / "CMakeLists.txt").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--backward", BACKWARD), "the entry 'launch' does not support gradients"),
        (("--entry", "torch", "--backward", BACKWARD, "--split"), "--split may make several"),
        (("--entry", "torch", "-t", "cpu"), "unknown entry 'torch'"),
        (("--flow", "akg", "--backward", BACKWARD), "--backward does not apply"),
    ],
)
def test_what_does_not_go_together(
    autofuse: Callable, words: tuple[object, ...], message: str
) -> None:
    done = autofuse("build", FORWARD, *words)
    assert done.code == 1
    assert "error AF5007" in done.err
    assert message in " ".join(done.err.split())


def test_a_gradient_is_for_one_graph(autofuse: Callable) -> None:
    done = autofuse("build", EXAMPLES, "--entry", "torch", "--backward", BACKWARD)
    assert done.code == 1
    assert "a gradient graph is for one graph" in done.err


def test_a_gradient_that_does_not_fit(autofuse: Callable) -> None:
    done = autofuse("build", BACKWARD, "--entry", "torch", "--backward", FORWARD)
    assert done.code == 1
    assert "error AF1404" in done.err
    assert "the output 'y' is not a gradient of an input of swish_backward" in done.err
