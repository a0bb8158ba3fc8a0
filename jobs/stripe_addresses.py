"""Where a connection to the provider may go (S67): a name is resolved once, and what was judged is what is connected to.

Over https only addresses of the public internet, so that no name, and no resolver that changes its mind, leads a key into our
own network. Over http, which production refuses, only this machine.
"""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NameResolutionError, NewConnectionError

Address = IPv4Address | IPv6Address
# Addresses of the one protocol inside the other's: they lead wherever the inner one says.
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


def is_public(address: Address) -> bool:
    """Whether an address is the internet's, and neither private, shared, link-local, multicast nor mapped from another."""
    if isinstance(address, IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address.teredo or any(address in net for net in _TRANSLATED)
    ):
        return False
    return address.is_global and not address.is_multicast


def is_here(address: Address) -> bool:
    """Whether an address is this machine's own."""
    return address.is_loopback


def _connect(
    connection: Any, allowed: Callable[[Address], bool], connect: Callable[[], socket.socket]
) -> socket.socket:
    """Resolves the connection's name, refuses it whole when one address of it is not allowed, and connects to the first that
    takes it. Raises what urllib3 raises; one that is refused counts as a connection that was: no byte of the request left."""
    name = connection.host
    try:
        found = socket.getaddrinfo(name, connection.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise NameResolutionError(name, connection, socket.gaierror(str(error))) from error
    addresses = list(dict.fromkeys(str(where[0]) for *_, where in found))
    if not addresses or not all(allowed(ip_address(address)) for address in addresses):
        why = "its name leads to an address that is not the provider's"
        raise NewConnectionError(connection, why) from ConnectionRefusedError(why)
    for last, address in enumerate(addresses, 1 - len(addresses)):
        # The name is put back: the certificate is asked for and compared by it.
        connection.host = address
        try:
            return connect()
        except NewConnectionError:
            if last == 0:
                raise
        finally:
            connection.host = name
    raise AssertionError("the last address raises")


class _ToTheProvider(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, is_public, super()._new_conn)


class _ToThisMachine(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connect(self, is_here, super()._new_conn)


class _PublicPool(HTTPSConnectionPool):
    ConnectionCls = _ToTheProvider


class _LocalPool(HTTPConnectionPool):
    ConnectionCls = _ToThisMachine


class JudgedAdapter(HTTPAdapter):
    """Connections whose addresses are judged before they are made."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """As its own, with pools of ours."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _LocalPool, "https": _PublicPool}
