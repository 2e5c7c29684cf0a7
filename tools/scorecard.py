"""`make scorecard`: every figure that says whether detection can be believed, in one file.

The labelled logs that the authors could see, those that nobody has read (the forecast), those that
were read after a first score, and the simulated streams; each with its interval. Exit code 6 where a figure that is promised
for the seen cases or the streams is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from middlewatch.cli import show
from middlewatch.wiring.analysis import BadInput
from middlewatch.wiring.numeric import Size, numeric, numeric_lines
from middlewatch.wiring.scoring import Card, score, table

ROOT = Path(__file__).parents[1]
OUT = ROOT / "build" / "scorecard.json"
SEEN = ROOT / "corpus" / "dev"
READ = ROOT / "corpus" / "later"
UNREAD = ROOT / "corpus" / "unseen"
FINDINGS = 6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it. The exit code."""
    parser = argparse.ArgumentParser(prog="tools.scorecard", description=__doc__)
    parser.add_argument("--cases", action="store_true", help="show what differs, case by case")
    parser.add_argument("--logs-only", action="store_true", help="leave the simulated streams out")
    parser.add_argument("--quick", action="store_true", help="few simulated streams: a try-out")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures are written")
    chosen = parser.parse_args(arguments)
    try:
        promised, read, unread = (score([folder]) for folder in (SEEN, READ, UNREAD))
    except BadInput as error:
        show.note(f"error: {error}")
        return 1
    card = Card((*promised.folders, *unread.folders), (*promised.judged, *unread.judged))
    body = {
        # What is promised is promised for the cases that anybody could look at. The others are the
        # forecast: beside them, not in one sum, and case by case for nobody to read.
        "promised": promised.as_json(cases=True),
        "unread": unread.as_json(),
        "read_later": read.as_json(cases=True),
    }
    missed = [target.text for target in promised.targets if not target.met]
    below = [target.text for target in unread.targets if not target.met]
    for line in table.lines_of(card, promised=promised):
        show.say(line)
    if chosen.cases:
        for judged in (*promised.judged, *read.judged):
            for line in table.case_lines(judged):
                show.say(line)
    if not chosen.logs_only:
        show.say()
        show.note("the simulated streams take some minutes")
        report = numeric(Size.small() if chosen.quick else None)
        for line in numeric_lines(report):
            show.say(line)
        body["numeric"] = report.as_json()
        missed += [name for name, met in report.targets if not met]
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(body, indent=2) + "\n")
    show.say()
    show.say(f"written to {chosen.out}")
    for name in below:
        show.say(f"BELOW THE AIM WHERE NOBODY READ  {name}")
    for name in missed:
        show.say(f"MISSED  {name}")
    return FINDINGS if missed else 0


if __name__ == "__main__":
    sys.exit(main())
