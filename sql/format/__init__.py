"""How the files of a store are written and named: frames of hot logs, batches, names."""
