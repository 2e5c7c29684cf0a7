"""`make bench`: how quick it is, measured on real things, with every raw value kept.

Nothing is simulated here that a figure is about: lines are written by real jobs, jobs fail on a real
Slurm, `middlewatch up` is the real command. A busy machine makes figures worse, never wrong.
"""
