"""A simulated Slurm in this process: the same port, the same rules, virtual time.

`SimulatedCluster` is the world (jobs, nodes, accounting), `SimulatedScheduler` what a client sees
of it through `ports.scheduler.Scheduler`. Move time with ``cluster.advance(now)``; in real time a
loop that calls it a few times a second makes it a small live cluster.
"""

from middlewatch.lab.simulated.client import Journey, SimulatedClient
from middlewatch.lab.simulated.faults import Doom, Fate, Faults
from middlewatch.lab.simulated.program import Exit, Place, Program, SimulatedTrainer, sleeper
from middlewatch.lab.simulated.records import SimulatedConfig
from middlewatch.lab.simulated.scheduler import SimulatedCommand, SimulatedScheduler
from middlewatch.lab.simulated.slurmctld import EPOCH, NotDone, SimulatedCluster

__all__ = [
    "EPOCH",
    "Doom",
    "Exit",
    "Fate",
    "Faults",
    "Journey",
    "NotDone",
    "Place",
    "Program",
    "SimulatedClient",
    "SimulatedCluster",
    "SimulatedCommand",
    "SimulatedConfig",
    "SimulatedScheduler",
    "SimulatedTrainer",
    "sleeper",
]
