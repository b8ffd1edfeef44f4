"""Show the contents of a dataset to people: facts, records, problems, and a report page."""
