"""The options of verbs that serve browsers and scrapers: access control and TLS."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from ..messages import print_message

if TYPE_CHECKING:
    from ..web.address import ListenAddress


def add_options(web: Any, instead: str) -> None:
    """Add --token-file, --open, --server-name, --tls-cert and --tls-key. INSTEAD says what applies without a token
    file."""
    web.add_argument("--token-file", metavar="FILE", help=f"require the token in this file, {instead}")
    web.add_argument(
        "--open", action="store_true", help="require no token: everybody who reaches the address has access"
    )
    web.add_argument(
        "--server-name",
        metavar="HOST",
        action="append",
        default=[],
        help="answer to this name too, such as that of a proxy on this machine; may be repeated",
    )
    web.add_argument("--tls-cert", metavar="FILE", help="serve https with this certificate (PEM, with its chain)")
    web.add_argument("--tls-key", metavar="FILE", help="key of the certificate (PEM)")


def where_of(arguments: argparse.Namespace, port: int) -> ListenAddress:
    """Returns the address from these options and --listen, with PORT as the default port. Raises MburstError."""
    from ..web.address import where_of as resolved

    return resolved(
        arguments.listen,
        port,
        arguments.token_file,
        arguments.tls_cert,
        arguments.tls_key,
        arguments.open,
        arguments.server_name,
    )


def name_new_store(path: str) -> None:
    """Report that the store at PATH is created, if it does not exist: the name may be a mistake."""
    if not os.path.exists(path):
        print_message(f"{path}: new store: empty until something is recorded into it")
