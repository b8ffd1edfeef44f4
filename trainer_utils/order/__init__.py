"""Which worker reads which record at which step."""
