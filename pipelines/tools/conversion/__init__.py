"""From raw files to a balanced dataset: what is there, what would be made, and making it."""
