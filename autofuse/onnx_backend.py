"""The public name of ``autofuse.clients.onnx.backend``."""

import sys

from autofuse.clients.onnx import backend as _home
from autofuse.clients.onnx.backend import *  # noqa: F403

sys.modules[__name__] = _home
