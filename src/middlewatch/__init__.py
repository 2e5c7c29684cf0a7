"""Middlewatch notices when a training job has failed and puts it back on healthy nodes.

The four pure rooms (`detection`, `attribution`, `remediation`, `reconciliation`) decide; everything
that touches the world stands around them. docs/architecture.md draws the map.
"""

__version__ = "0.1.0.dev0"
