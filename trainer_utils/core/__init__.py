"""Errors, declared settings, JSON and printing helpers. Nothing here depends on other packages."""
