"""Other planners' own problems, solved by this one: `python -m benchmarks.peers CASE.json...`

One adapter file a peer, named as the case's `peer`. An adapter has

    OBJECTIVES                        names, the default first
    solve(case, objective, seconds)   -> Answer
    peer_value(case)                  -> what the peer's own program reached, in the objective's unit, or None

and does nothing but turn the case into the tool's own inputs, call the shipped solver, and write the
solution in the form that the cases' scorer reads.
"""
