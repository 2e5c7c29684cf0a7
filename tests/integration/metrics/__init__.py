"""The adapter of the metrics port against servers that behave well and badly."""
