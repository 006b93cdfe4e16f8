"""OTLP metrics → rows: messages, tables of what a metric means, running totals as bins."""
