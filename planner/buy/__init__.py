"""What to rent or buy for a model and a load: the best mix of a price list's offers, the price of each at which
the answer changes, and what to add when the load grows."""
