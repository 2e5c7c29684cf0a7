"""`python -m middlewatch` is the command line."""

from __future__ import annotations

from middlewatch.cli import main

if __name__ == "__main__":
    main()
