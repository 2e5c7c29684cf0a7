"""The log source port over files of this machine, and the codec of what is remembered of them."""

from middlewatch.adapters.logs.files import FileLogs
from middlewatch.adapters.logs.held import room_for_files
from middlewatch.adapters.logs.records import RecordCodec

__all__ = ["FileLogs", "RecordCodec", "room_for_files"]
