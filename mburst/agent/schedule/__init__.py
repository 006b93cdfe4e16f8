"""Reports that are due, and who starts them."""
