"""The keeper: lets what has aged go from the store, so that it does not grow without end."""

from middlewatch.services.keeper.keeper import Keeper, KeeperReport

__all__ = ["Keeper", "KeeperReport"]
