"""The scanner port over RE2, and the pattern files that it is made from."""

from middlewatch.adapters.scan.catalogue import BadPatternError, Catalogue, read_catalogue
from middlewatch.adapters.scan.scanner import Re2Scanner

__all__ = ["BadPatternError", "Catalogue", "Re2Scanner", "read_catalogue"]
