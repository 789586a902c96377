"""Text and files into values with the places where they stand."""
