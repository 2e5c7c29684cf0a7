"""The whole control plane in virtual time on the simulated Slurm, thousands of schedules at a time.

A real cluster shows what happens; it cannot be made to show what happens once in a million hours,
and never twice the same. Here everything is drawn from a seed: how long each question and command
travels, which answers are lost, who dies at which step, what operators and owners do in the middle
(`drawn`). Store, journal, watcher, manager, controller and watchdog are the real ones (`process`),
one turn of one of them at a time (`turns`); what the world was at each moment is written down
beside them (`witness`) and judged against the rules (`judge`), never by what the program says of
itself. `play` plays one seed, `explore` many.
"""
