"""One file per change of the tables, named by its number."""
