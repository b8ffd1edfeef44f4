"""Reorder records, through files if they do not fit into memory, and edit them."""
