"""``ascir.Assert``."""

from autofuse.clients.cann.pyautofuse.errors import ClientError

__all__ = ["Assert"]


def Assert(*args: object, **kwargs: object) -> None:  # noqa: N802 - the client's name for it
    """A check inside of a kernel: refused, as generated kernels make none.

    Raises:
        ClientError: AF1301, always.
    """
    raise ClientError.of(
        "AF1301", "ascir.Assert is not supported: kernels check nothing while they run"
    )
