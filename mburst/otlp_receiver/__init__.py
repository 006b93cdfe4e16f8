"""The receiver of OTLP metrics: admits senders and passes their messages to telemetry/otlp/."""
