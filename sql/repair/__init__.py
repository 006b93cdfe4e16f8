"""Checking, repairing, recovering and migrating a store."""
