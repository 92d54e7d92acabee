"""The public name of ``autofuse.clients.onnx.models``."""

import sys

from autofuse.clients.onnx import models as _home
from autofuse.clients.onnx.models import *  # noqa: F403

sys.modules[__name__] = _home
