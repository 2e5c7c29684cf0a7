"""Kill everything at random moments of a recovery on a real Slurm, and count what went wrong.

A controller that requeues other people's jobs is judged by what it leaves behind when it dies. Each
schedule (`schedule`) is one job that fails, one or more moments at which everything is killed, and a
restart; it runs on a real Slurm (`run`), while others watch from outside: who read what over the API
(`ledger`), which trainings were alive and what Slurm shows (`world`). The judgement (`verdict`) asks
the world and never the program's own claims. `campaign` runs many and writes build/faults.json.
"""
