"""The public name of ``autofuse.clients.cann.compile_adapter``."""

import sys

from autofuse.clients.cann import compile_adapter as _home
from autofuse.clients.cann.compile_adapter import *  # noqa: F403

sys.modules[__name__] = _home
