"""The judgement of made-up samples: no server, no clock, no file."""
