"""What was asked, and the question that is solved."""
