"""The functions behind the commands: convert, layouts, verify, diff, forget, ledger, browse."""
