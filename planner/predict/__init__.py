"""`meshwright predict`: replicas under a stated load."""
