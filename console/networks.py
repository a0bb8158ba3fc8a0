"""Which addresses are of one network: what a person at one desk moves within, and a stolen cookie does not (S13)."""

from ipaddress import IPv6Address, ip_address


def same_network(one: str, other: str) -> bool:
    """Whether two addresses are of one /24 of IPv4 or one /48 of IPv6. What is no address is only like itself."""
    try:
        return _network(one) == _network(other)
    except ValueError:
        return one == other


def _network(text: str) -> tuple[int, int]:
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.version, int(address) >> (8 if address.version == 4 else 80)
