"""Shell completion: the scripts, and job ids that are completed live."""

from __future__ import annotations

import click


def job_ids(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Job ids that begin like that; none where nobody answers quickly: a shell must not wait."""
    from dataclasses import replace

    from middlewatch.cli import asking
    from middlewatch.cli.session import Session

    try:
        gateway = replace(asking.gateway(Session(None, {})), timeout_s=0.5)
        answer = gateway.get("/v1/jobs", {"completedJobs": False, "limit": 250})
        found = [str(job.get("jobId") or "") for job in answer.get("jobs") or []]
    except click.ClickException:
        return []
    return sorted({name for name in found if name.startswith(incomplete) and name.isascii()})


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for both names, `middlewatch` and `mw`.

    \b
    Examples:
      eval "$(mw completion bash)"
      mw completion fish > ~/.config/fish/completions/mw.fish
    """
    from click.shell_completion import get_completion_class

    from middlewatch.cli.app import app

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    for name in ("middlewatch", "mw"):
        # bash's variant checks the version of the bash that runs it; the script itself is the same.
        variable = f"_{name.upper()}_COMPLETE"
        click.echo(kind.source_template % kind(app, {}, name, variable).source_vars())
