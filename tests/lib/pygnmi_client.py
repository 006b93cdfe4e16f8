"""A gNMI client based on pygnmi, as a program, because pygnmi's threads end only with their process. Its argument is
JSON: the address, the call and the arguments of pygnmi's method of that name. Prints each response as pygnmi returns
it, as a line of JSON, and in the end {"status": CODE, "message": TEXT}; a stream that was read for `seconds` has the
status OK."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import grpc
from pygnmi.client import gNMIclient


def say(made: Any) -> None:
    print(json.dumps(made), flush=True)


def stream(client: Any, asked: dict[str, Any], seconds: float) -> None:
    subscriber = client.subscribe2(**asked)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            say(subscriber.get_update(timeout=until - time.monotonic()))
        except TimeoutError:
            return


def ended(error: BaseException) -> grpc.RpcError | None:
    """Returns the gRPC error behind one of pygnmi's."""
    while error is not None and not isinstance(error, grpc.RpcError):
        error = getattr(error, "orig_exc", None) or error.__cause__  # type: ignore[assignment]
    return error


def main() -> None:
    asked = json.loads(sys.argv[1])
    host, _, port = asked["address"].rpartition(":")
    status, message = "OK", ""
    with gNMIclient(target=(host, port), insecure=True, no_qos_marking=True) as client:
        try:
            if asked["call"] == "subscribe":
                stream(client, asked["with"], asked["seconds"])
            else:
                say(getattr(client, asked["call"])(**asked["with"]))
        except Exception as error:
            found = ended(error)
            if found is None:
                raise
            status, message = found.code().name, found.details()
    say({"status": status, "message": message})
    os._exit(0)


if __name__ == "__main__":
    main()
