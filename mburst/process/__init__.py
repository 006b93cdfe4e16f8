"""This process: signals that end it, its output, its rights, its threads, and how it starts Python again."""
