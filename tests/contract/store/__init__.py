"""What every store must do, whichever database is behind it.

The tests know the port and a `backend` (see `backends`): a way to open the same data twice, an
address for other processes, and a way to damage a row. A database joins by adding one class there.
"""
