"""One suite of behaviours, for the simulated and for the real scheduler."""
