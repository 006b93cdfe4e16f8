"""What runs unattended: the parts of one configuration file, reports when they are due, their delivery, and metrics."""
