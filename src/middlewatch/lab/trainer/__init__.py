"""A training job small enough for a laptop and real enough to be recovered.

Several ranks under ``srun`` fit a linear model by stochastic gradient descent. In each step each
rank draws its own batch, computes a gradient, and all gradients are summed through rank 0: a
real barrier, so that one rank that hangs makes all wait, and one that is slow makes all slow.
Rank 0 saves checkpoints (written aside, fsynced, renamed) with the weights and the state of
every rank's random numbers, so that a job resumed from one computes exactly what it would have
computed without interruption.

It prints what real trainers print (``--format``) and can be told to fail in the ways in which
real ones do (``--fault``), by option or, while it runs, by a control file.

Alone on purpose: standard library only, nothing of ours imported, because it is copied into a
folder of its own and runs as other users, on Debian's interpreter, inside jobs:
``python3 -m trainer --checkpoint-dir … ``.
"""
