"""`meshwright fit`: does it fit, and how much of it."""
