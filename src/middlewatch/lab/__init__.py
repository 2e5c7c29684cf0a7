"""A real Slurm on one machine, and everything that a recovery can be tried with.

``cluster`` starts and stops it, ``jobs`` and ``trainer`` are the work that runs on it,
``breakage`` breaks it, ``commandlog`` proves which commands were issued. Nothing here is part
of a production installation.
"""
