"""Records that differ from another in a few fields, at the price of the fields and not of the call.

A round over thousands of jobs makes some ten records anew for each job that has news, some of them
with forty fields. `dataclasses.replace` asks for every field by name and then has the constructor
set every one through the guard of a frozen record, which was most of what such a job cost. Here the
fields are handed to the constructor of a class that has the same fields and is not frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["replace"]

if TYPE_CHECKING:
    # The same in every other way, so that names and types of fields are checked.
    from dataclasses import replace
else:
    import dataclasses
    from collections.abc import Callable
    from operator import attrgetter

    _Copy = Callable[[Any, dict[str, Any]], Any]
    _copies: dict[type, _Copy] = {}

    def replace(record: Any, /, **changes: Any) -> Any:
        """A record like this one with these fields changed, as `dataclasses.replace` makes it.
        Raises `TypeError` for what is no record, and for a field that it does not have."""
        copy = _copies.get(type(record))
        if copy is None:
            copy = _copies[type(record)] = _copy_of(type(record))
        return copy(record, changes)

    def _by_constructor(record: Any, changes: dict[str, Any]) -> Any:
        return dataclasses.replace(record, **changes)

    def _copy_of(kind: type) -> _Copy:
        """How records of a class are copied: by its constructor where that does more than to set
        the fields, or where they are not all in slots of the class's own."""
        if not dataclasses.is_dataclass(kind) or hasattr(kind, "__post_init__"):
            return _by_constructor
        names = tuple(field.name for field in dataclasses.fields(kind))
        plain = all(field.init for field in dataclasses.fields(kind))
        if (
            not plain
            or len(names) < 2
            or kind.__dict__.get("__slots__") != names
            or kind.__mro__ != (kind, object)
        ):
            return _by_constructor
        open_kind = dataclasses.make_dataclass(f"Open{kind.__name__}", names, slots=True)
        values_of = attrgetter(*names)
        known = frozenset(names)

        def copy(record: Any, changes: dict[str, Any]) -> Any:
            made: Any = open_kind(*values_of(record))
            for name, value in changes.items():
                if name not in known:
                    raise TypeError(f"{kind.__name__} has no field {name!r}")
                setattr(made, name, value)
            # Both classes have the same slots and nothing else: the object may be of either.
            made.__class__ = kind
            return made

        return copy
