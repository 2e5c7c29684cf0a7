"""The job manager: signals in, issues, verdicts and advice out. Start at ``manager``."""
