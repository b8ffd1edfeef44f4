"""Cores, memory and threads of this process."""
