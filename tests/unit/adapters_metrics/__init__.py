"""What is asked of a metrics server."""
