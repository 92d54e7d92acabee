"""``ascir.Assert``."""

from autofuse.clients.cann.pyautofuse.errors import ClientError

__all__ = ["Assert"]


def Assert(*args: object, **kwargs: object) -> None:  # noqa: N802 - the client's name for it
    """Refuse a check inside a kernel: generated kernels contain none.

    Raises:
        ClientError: AF1301, always.
    """
    raise ClientError.of(
        "AF1301", "ascir.Assert is not supported: kernels make no checks at run time"
    )
