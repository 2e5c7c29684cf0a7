"""How often Python looks for records that hold each other in a circle.

Nothing here makes many of those, and a round over ten thousand jobs makes some hundred thousand
records: at Python's own pace a tenth of the round would go into looking through all that is kept.
"""

from __future__ import annotations

import gc

NEW, YOUNG, OLD = 20_000, 20, 20
"""Records more than before until the newest are looked through; and every how many times those
that were kept then, and at last all."""


def collect_rarely() -> None:
    """Set the pace for this process."""
    gc.set_threshold(NEW, YOUNG, OLD)
