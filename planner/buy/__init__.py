"""What to rent for a model and a load: the best mix of a price list's offers."""
