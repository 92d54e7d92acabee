"""The public name of ``autofuse.clients.cann.ascir_api``."""

import sys

from autofuse.clients.cann import ascir_api as _home
from autofuse.clients.cann.ascir_api import *  # noqa: F403

sys.modules[__name__] = _home
