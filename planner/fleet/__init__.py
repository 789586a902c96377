"""From a posed question to a Plan: the fleet is solved (`solve`), then explained, assembled and checked
(`finish`)."""
