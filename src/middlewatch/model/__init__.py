"""Frozen records, closed enums and their lawful transitions. Standard library only."""
