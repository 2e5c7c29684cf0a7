"""The scripts that make the tables, in order. A published script is never changed again."""
