"""Let everything go wrong in the middle of a recovery on a real Slurm, and count what comes of it.

A controller that requeues other people's jobs is judged by what it leaves behind when it dies, when Slurm
does, and when people act beside it. Each schedule (`schedule`, drawn from a line of `patterns`) is one job
that fails, and one or two places of its recovery (`places`) at which something is done (`deeds`) to the
control plane (`site`), to Slurm, or by people. It runs on a real Slurm (`run`), while others watch from
outside: who read what over the API (`ledger`), what the job wrote down and what Slurm shows (`world`). The
judgement (`verdict`) asks what was seen (`seen`) and never the program's own claims. `campaign` runs many,
on several releases, and writes build/faults.json.
"""
