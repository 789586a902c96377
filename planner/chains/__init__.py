"""`--engine chains`: nodes with some of the layers each, and what is left when some leave."""
