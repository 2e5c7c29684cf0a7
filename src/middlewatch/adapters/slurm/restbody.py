"""What the bodies of slurmrestd's answers say of the cluster, under the names that each release has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from middlewatch.adapters.slurm import detail as details
from middlewatch.ports.errors import Unreadable


def conf_in(body: Mapping[str, Any]) -> dict[str, str]:
    """slurm.conf as ``scontrol show config`` prints it."""
    conf, meta = body.get("slurm_conf"), body.get("slurm_conf_meta")
    if not isinstance(conf, dict) or not isinstance(meta, dict):
        raise Unreadable("slurmrestd describes no slurm.conf")
    found = {key: _setting(value) for key, value in {**meta, **conf}.items()}
    if not found.get("ClusterName") or not found.get("SLURM_VERSION"):
        raise Unreadable("slurmrestd's slurm.conf names neither ClusterName nor SLURM_VERSION")
    return found


def _setting(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(each).lower() for each in value)
    plain = details.number(value)
    if plain is not None:
        return str(plain)
    return str(int(value)) if isinstance(value, bool) else str(value)


def records_in(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unreadable(f"slurmrestd's answer has no list of {name}")
    return found


def release_in(body: Mapping[str, Any]) -> str:
    known = _meta(body).get("release")
    if isinstance(known, str):
        return known
    raise Unreadable("slurmrestd does not say its release")


def cluster_in(body: Mapping[str, Any]) -> str:
    """The cluster that slurmrestd says it speaks for; 22.05's says nothing."""
    known = _meta(body).get("cluster")
    return known if isinstance(known, str) else ""


def _meta(body: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = body.get("meta")
    for key in ("Slurm", "slurm"):
        known = meta.get(key) if isinstance(meta, dict) else None
        if isinstance(known, dict):
            return known
    return {}
