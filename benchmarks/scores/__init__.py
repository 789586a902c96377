"""How good predictions of measured rows are, as errors, bands, choices and orderings; see `report.score`."""
