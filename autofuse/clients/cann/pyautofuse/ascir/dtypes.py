"""``ascir.dtypes``: element types by the names that clients use."""

from autofuse.clients.cann.pyautofuse.errors import ClientAttributeError
from autofuse.clients.cann.pyautofuse.foreign import FOREIGN_TYPES, ForeignType
from autofuse.implgraph.ir.dtypes import BY_NAME, DType

__all__ = ["bf16", "float16", "float32"]

float32 = BY_NAME["float32"]
float16 = BY_NAME["float16"]
bf16 = bfloat16 = BY_NAME["bfloat16"]
int8 = BY_NAME["int8"]
int16 = BY_NAME["int16"]
int32 = BY_NAME["int32"]
int64 = BY_NAME["int64"]
uint8 = BY_NAME["uint8"]
uint16 = BY_NAME["uint16"]
uint32 = BY_NAME["uint32"]
uint64 = BY_NAME["uint64"]
bool = BY_NAME["bool"]


def __getattr__(name: str) -> DType | ForeignType:
    """Return an element type that CANN has but kernels do not support, for any other name.

    Raises:
        ClientAttributeError: AF1203, there is no such element type.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    if name in FOREIGN_TYPES:
        return ForeignType(name)
    known = ", ".join(n for n in BY_NAME if n != "mask")
    raise ClientAttributeError.of(
        "AF1203", f"ascir.dtypes.{name} is not supported", hint=f"supported: {known}, bf16"
    )
