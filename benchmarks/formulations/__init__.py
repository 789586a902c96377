"""Formulations that no command solves: what the comparisons with published planners and with bounds need.

`placement*` places layers for the most tokens/s that can flow (Helix's objective), `workers` splits GPUs
among prefill, attention and FFN workers (HexGen-3), `pipeline_master` counts the pipelines of
`solvers.pipeline` by column generation, `tiers_prices` reads what one more byte of a tier is worth off the
duals of `solvers.tiers`.
"""
