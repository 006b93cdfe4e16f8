"""Figures and reports. Draws the results of analysis; computes nothing itself."""
