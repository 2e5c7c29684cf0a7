"""The numeric sets of the scorecard: simulated step streams through the real fold.

What no collection of logs can show (how often a healthy job would be taken for a stuck or a slow
one, how small a slowdown is found, and how soon) is measured on thousands of simulated hours. They
are simulated: they test the rules, not the world.
"""

from middlewatch.wiring.numeric.play import Played, play
from middlewatch.wiring.numeric.sets import Report, Size, numeric
from middlewatch.wiring.numeric.table import numeric_lines

__all__ = ["Played", "Report", "Size", "numeric", "numeric_lines", "play"]
