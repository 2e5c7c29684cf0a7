"""The metrics port over every server that speaks it."""
