"""OTLP metrics → rows: messages, tables of the meanings of metrics, bins from running totals."""
