"""What runs until it is stopped: recording, probing, collecting, the live view."""
