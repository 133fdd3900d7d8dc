"""Where a request comes from, for counting: behind trusted proxies it is the address that they saw."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from orchestrator.conf import conf


def origin(address: str | None, forwarded: str | None) -> str:
    """The client's address, of version 6 its /64 network; empty when it is not known.

    `forwarded` is X-Forwarded-For: each proxy adds who called it at the end, so only what trusted ones added counts.
    """
    found = _parsed(address)
    hops = (forwarded or "").split(",")
    while found is not None and hops and any(found in network for network in networks(conf().PROXIES)):
        before = _parsed(hops.pop())
        if before is None:
            break
        found = before
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found), 64), strict=False))
    return str(found or "")


@lru_cache(maxsize=8)
def networks(listed: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """The networks of a list with commas; raises ValueError."""
    return tuple(ip_network(part.strip(), strict=False) for part in listed.split(",") if part.strip())


def _parsed(text: str | None) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address((text or "").strip())
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
