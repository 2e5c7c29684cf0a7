"""The scanner port over Hyperscan and RE2, and the pattern files that it is made from."""

from middlewatch.adapters.scan.catalogue import (
    BadPatternError,
    Catalogue,
    read_catalogue,
    read_loops,
)
from middlewatch.adapters.scan.engine import Engine, NoEngineError, scanner_for
from middlewatch.adapters.scan.own import OwnPatterns
from middlewatch.adapters.scan.scanner import LineScanner, Re2Scanner

__all__ = [
    "BadPatternError",
    "Catalogue",
    "Engine",
    "LineScanner",
    "NoEngineError",
    "OwnPatterns",
    "Re2Scanner",
    "read_catalogue",
    "read_loops",
    "scanner_for",
]
