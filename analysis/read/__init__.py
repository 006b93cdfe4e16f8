"""What the answers ask the store's tables and views: SQL in, rows out."""
