"""What the commands do, apart from the command line: convert, inspect, show, verify, report."""
