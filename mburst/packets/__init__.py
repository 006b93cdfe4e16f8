"""Packets: the rings of files that recorders keep, and extraction from rings and captures."""
