"""What is in a dataset, for people: its facts, records, what will hurt, and a page of all that."""
