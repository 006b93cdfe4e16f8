"""The messages of gNMI, from descriptors that are built when this module is imported.

Fields and numbers are those of gnmi.proto 0.10 (openconfig/gnmi); fields that mburst neither sends nor reads are left
out, and protobuf skips them on the wire. The descriptors are in a pool of their own, so that another package's gNMI
stubs can be in the same process. `Any` is defined here, since only its bytes are of interest.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "gnmi"
SUBSCRIBE = "/gnmi.gNMI/Subscribe"
CAPABILITIES = "/gnmi.gNMI/Capabilities"
GET = "/gnmi.gNMI/Get"
SET = "/gnmi.gNMI/Set"
SERVICE = "gnmi.gNMI"
VERSION = "0.10.0"

ENCODINGS = ("JSON", "BYTES", "PROTO", "ASCII", "JSON_IETF")
LIST_MODES = ("STREAM", "ONCE", "POLL")
STREAM_MODES = ("TARGET_DEFINED", "ON_CHANGE", "SAMPLE")
DATA_TYPES = ("ALL", "CONFIG", "STATE", "OPERATIONAL")

_ENUMS = {"Encoding": ENCODINGS, "ListMode": LIST_MODES, "StreamMode": STREAM_MODES, "DataType": DATA_TYPES}

# message → its fields: "number name type", a type with * is repeated, with ? a member of the message's one oneof.
_MESSAGES = {
    "Any": ["1 type_url string", "2 value bytes"],
    "PathKey": ["1 key string", "2 value string"],  # the entry of a map; see _file()
    "PathElem": ["1 name string", "2 key *PathKey"],
    "Path": ["1 element *string", "2 origin string", "3 elem *PathElem", "4 target string"],
    "Value": ["1 value bytes", "2 type Encoding"],
    "Decimal64": ["1 digits int64", "2 precision uint32"],
    "ScalarArray": ["1 element *TypedValue"],
    "TypedValue": [
        "1 string_val ?string", "2 int_val ?int64", "3 uint_val ?uint64", "4 bool_val ?bool", "5 bytes_val ?bytes",
        "6 float_val ?float", "7 decimal_val ?Decimal64", "8 leaflist_val ?ScalarArray", "9 any_val ?Any",
        "10 json_val ?bytes", "11 json_ietf_val ?bytes", "12 ascii_val ?string", "13 proto_bytes ?bytes",
        "14 double_val ?double",
    ],
    "Update": ["1 path Path", "2 value Value", "3 val TypedValue", "4 duplicates uint32"],
    "Notification": ["1 timestamp int64", "2 prefix Path", "4 update *Update", "5 delete *Path", "6 atomic bool"],
    "Error": ["1 code uint32", "2 message string"],
    "Poll": [],
    "QOSMarking": ["1 marking uint32"],
    "ModelData": ["1 name string", "2 organization string", "3 version string"],
    "Subscription": [
        "1 path Path", "2 mode StreamMode", "3 sample_interval uint64", "4 suppress_redundant bool",
        "5 heartbeat_interval uint64",
    ],
    "SubscriptionList": [
        "1 prefix Path", "2 subscription *Subscription", "4 qos QOSMarking", "5 mode ListMode",
        "6 allow_aggregation bool", "7 use_models *ModelData", "8 encoding Encoding", "9 updates_only bool",
    ],
    "SubscribeRequest": ["1 subscribe ?SubscriptionList", "3 poll ?Poll"],
    "SubscribeResponse": ["1 update ?Notification", "3 sync_response ?bool", "4 error ?Error"],
    # The same message on the wire, read with paths left serialized: a path that was seen before need not be parsed
    # again.
    "ReadUpdate": ["1 path bytes", "2 value Value", "3 val TypedValue", "4 duplicates uint32"],
    "ReadNotification": [
        "1 timestamp int64", "2 prefix bytes", "4 update *ReadUpdate", "5 delete *bytes", "6 atomic bool",
    ],
    "ReadResponse": ["1 update ?ReadNotification", "3 sync_response ?bool", "4 error ?Error"],
    "GetRequest": [
        "1 prefix Path", "2 path *Path", "3 type DataType", "5 encoding Encoding", "6 use_models *ModelData",
    ],
    "GetResponse": ["1 notification *Notification"],
    "CapabilityRequest": [],
    "CapabilityResponse": ["1 supported_models *ModelData", "2 supported_encodings *Encoding", "3 gNMI_version string"],
}  # fmt: skip

_Field = descriptor_pb2.FieldDescriptorProto


def _add_field(message: descriptor_pb2.DescriptorProto, text: str) -> None:
    number, name, kind = text.split()
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind[0] == "*":
        field.label = _Field.LABEL_REPEATED
    elif kind[0] == "?":
        if not message.oneof_decl:
            message.oneof_decl.add(name="response" if message.name.endswith("Response") else "value")
        field.oneof_index = 0
    kind = kind.lstrip("*?")
    if kind in _ENUMS:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{PACKAGE}.{kind}"
    elif kind == "PathKey":
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.PathElem.KeyEntry"
    elif kind in _MESSAGES:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="mburst/gnmi.proto", package=PACKAGE, syntax="proto3")
    for name, words in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, word in enumerate(words):
            enum.value.add(name=f"{name}_{word}", number=number)
    for name, fields in _MESSAGES.items():
        if name == "PathKey":
            continue
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, field)
        if name == "PathElem":  # a map is a repeated message with this option
            entry = message.nested_type.add(name="KeyEntry")
            entry.options.map_entry = True
            for field in _MESSAGES["PathKey"]:
                _add_field(entry, field)
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


Path = _message("Path")
PathElem = _message("PathElem")
TypedValue = _message("TypedValue")
Update = _message("Update")
Notification = _message("Notification")
ModelData = _message("ModelData")
Subscription = _message("Subscription")
SubscriptionList = _message("SubscriptionList")
SubscribeRequest = _message("SubscribeRequest")
SubscribeResponse = _message("SubscribeResponse")
ReadNotification = _message("ReadNotification")
ReadResponse = _message("ReadResponse")
GetRequest = _message("GetRequest")
GetResponse = _message("GetResponse")
CapabilityRequest = _message("CapabilityRequest")
CapabilityResponse = _message("CapabilityResponse")
