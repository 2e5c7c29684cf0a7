"""Simulated step streams: what jobs print while they are well, slow or stuck, and when."""

from middlewatch.lab.streams.jobs import Fault, Job, Printed, What, job
from middlewatch.lab.streams.profiles import Pace, Profile, healthy, plain, stuck

__all__ = ["Fault", "Job", "Pace", "Printed", "Profile", "What", "healthy", "job", "plain", "stuck"]
