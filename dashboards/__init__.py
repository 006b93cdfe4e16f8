"""Figures and reports. Draws what analysis computed; computes nothing itself."""
