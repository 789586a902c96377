"""Rules of other simulators, for the replay's own event loop: one module each, with

    replayed(problem) -> Fleet        a fleet of the shipped simulator under the case's rules
    measured(fleet, outcome) -> dict  the case's times by name, (requests,) each

A module has step times and batch rules (policies of `benchmarks.replays.stepwise`) or routing (routers of
`planner.simulate.routing`); requests, events, transfers and times are the simulator's.
"""
