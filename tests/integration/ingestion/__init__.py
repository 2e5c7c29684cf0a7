"""Sampling real servers and stand-ins, with labels and times that are wrong."""
