"""The report of hosts."""
