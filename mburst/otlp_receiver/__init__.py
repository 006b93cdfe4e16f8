"""The receiver of OTLP metrics: who may send, and how what is sent comes to telemetry/otlp/."""
