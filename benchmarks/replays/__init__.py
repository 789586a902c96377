"""Replays that formulas are tested against, and that no command takes: of servers by plainer rules than a
plan's, of chains of nodes, of prefix caches in several tiers, of transfers; built on `planner.simulate`."""
