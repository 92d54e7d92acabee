"""``ascir.Assert``."""

from autofuse.base.diagnostics import AutofuseError

__all__ = ["Assert"]


def Assert(*args: object, **kwargs: object) -> None:  # noqa: N802 - the client's name for it
    """A check inside of a kernel: refused, as generated kernels make none.

    Raises:
        AutofuseError: AF1301, always.
    """
    raise AutofuseError.of(
        "AF1301", "ascir.Assert is not supported: kernels check nothing while they run"
    )
