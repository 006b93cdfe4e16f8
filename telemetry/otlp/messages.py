"""The messages of OTLP metrics, from descriptors that are built when this module is imported.

Fields and numbers are those of opentelemetry-proto 1; fields that mburst does not read are left out, and protobuf skips
them. The attributes of a point and the resource stay bytes: they identify the series of a point, and those of a known
series need no parsing. The descriptors are in a pool of their own, separate from the stubs of other packages.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

EXPORT = "opentelemetry.proto.collector.metrics.v1.MetricsService"
DELTA = 1  # AggregationTemporality

# message → its fields: "number name type"; a type with * is repeated, with ? a member of a oneof.
_MESSAGES = {
    "Value": [
        "1 string_value ?string", "2 bool_value ?bool", "3 int_value ?int64", "4 double_value ?double",
        "7 bytes_value ?bytes",
    ],
    "KeyValue": ["1 key string", "2 value Value"],
    "Resource": ["1 attributes *KeyValue"],
    "Point": [
        "2 start_time_unix_nano fixed64", "3 time_unix_nano fixed64", "4 as_double ?double", "6 as_int ?sfixed64",
        "7 attributes *bytes", "8 flags uint32",
    ],
    "Points": ["1 data_points *Point", "2 aggregation_temporality int32"],
    "Other": ["1 data_points *bytes"],
    "Metric": [
        "1 name string", "5 gauge Points", "7 sum Points", "9 histogram Other",
        "10 exponential_histogram Other", "11 summary Other",
    ],
    "ScopeMetrics": ["2 metrics *Metric"],
    "ResourceMetrics": ["1 resource bytes", "2 scope_metrics *ScopeMetrics"],
    "Request": ["1 resource_metrics *ResourceMetrics"],
    "PartialSuccess": ["1 rejected_data_points int64", "2 error_message string"],
    "Response": ["1 partial_success PartialSuccess"],
}  # fmt: skip
_TYPES = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    made = descriptor_pb2.FileDescriptorProto(name="mburst/otlp.proto", package="otlp", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = made.message_type.add(name=name)
        for text in fields:
            number, field, kind = text.split()
            added = message.field.add(name=field, number=int(number), label=3 if kind[0] == "*" else 1)
            if kind[0] == "?":
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                added.oneof_index = 0
            kind = kind.lstrip("*?")
            if kind in _MESSAGES:
                added.type, added.type_name = _TYPES.TYPE_MESSAGE, f".otlp.{kind}"
            else:
                added.type = getattr(_TYPES, f"TYPE_{kind.upper()}")
    return made


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())
_classes = {
    name: message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"otlp.{name}"))
    for name in ("KeyValue", "Resource", "Request", "Response")
}
KeyValue, Resource, Request, Response = _classes.values()
