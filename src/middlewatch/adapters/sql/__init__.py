"""The store over SQL: SQLite embedded, written so that other databases can join.

Nothing is imported here: who only asks where the state may lie (``place``) must not wait for a
database library. The store is ``store.open_store``.
"""
