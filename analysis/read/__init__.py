"""The queries of the answers on the store's tables and views: SQL in, rows out."""
