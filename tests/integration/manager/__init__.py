"""The job manager over a real store."""
