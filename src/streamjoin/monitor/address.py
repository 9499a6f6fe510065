"""Where the page is served: the text of --watch, and which addresses other machines can reach."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from streamjoin.errors import OptionError, cut

LOOPBACK = "127.0.0.1"
NAMES = ("localhost", LOOPBACK, "[::1]")  # what a browser on this machine may call it


@dataclass(frozen=True)
class Address:
    """A host and a port; port 0 means any that is free."""

    host: str = LOOPBACK
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Can only this machine reach it?

        >>> Address("localhost").is_local, Address("::1").is_local, Address("0.0.0.0").is_local
        (True, True, False)
        """
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def read_address(text: str) -> Address:
    """`host:port`, `:port`, `host` or a port alone.

    >>> read_address("8080"), read_address("0.0.0.0:80"), read_address("[::1]:8080")
    (Address(host='127.0.0.1', port=8080), Address(host='0.0.0.0', port=80), Address(host='::1', port=8080))
    """
    if text.isdigit():
        host, port = "", text
    elif text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if (port and not port.isdigit()) or int(port or 0) > 65_535:
        raise OptionError(
            f'--watch "{cut(text)}" is not an address; write a port (8080), a host and port (0.0.0.0:8080), or nothing'
        )
    return Address(host or LOOPBACK, int(port or 0))
