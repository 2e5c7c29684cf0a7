"""HTTP over a Unix socket for the command line, which does not import the adapters that speak it."""

from __future__ import annotations

from middlewatch.adapters.slurm.restcall import UnixConnection

__all__ = ["UnixConnection"]
