"""The way of a harvesting browser to the network: to public addresses, and to hosts that were allowed by name.

A page may name any host, redirect to it, frame it, or own a name that is pointed at this machine's network after it was
looked at. So the browser resolves nothing itself: every request goes through this proxy, which looks a name up once,
refuses addresses of inner networks, and connects to the very address that it checked.
"""

import ipaddress
import select
import socket
import socketserver
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

CONNECT_S, IDLE_S = 20.0, 120.0
MAX_HEAD = 64 << 10
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given out for the public internet. What lies elsewhere (site-local, IPv4-compatible, a network's
own NAT64) leads inwards, also where Python calls it global."""
_ISATAP = (0x00005EFE, 0x02005EFE)
_RESERVED = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24")))


class InnerAddress(ValueError):
    """A host whose address is of an inner network."""


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, whatever form it hides another in."""
    # Zone names belong to inner networks; the address alone decides.
    found = ipaddress.ip_address(address.partition("%")[0])
    inside: ipaddress.IPv4Address | None = None
    if isinstance(found, ipaddress.IPv6Address):
        # IPv4 inside of IPv6: an inner address must not hide in another form.
        inside = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if found in _NAT64 or int(found) >> 32 & 0xFFFFFFFF in _ISATAP:
            inside = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if found not in _UNICAST and inside is None:
            return False
    if any(found in network for network in _RESERVED):
        return False
    return found.is_global and not found.is_multicast and (inside is None or is_public(str(inside)))


class OutsideProxy:
    """See the module. `allowed`: hosts that may be reached wherever they are. `refused`: host → why, so far."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = {host.lower().strip("[]") for host in allowed}
        self.refused: dict[str, str] = {}

    def connect(self, host: str, port: int) -> socket.socket:
        """A connection to a host. Raises `InnerAddress`, or `OSError` where nobody answers."""
        host = host.lower().strip("[]")
        local = host == "localhost" or host.endswith(".localhost")  # as browsers have it, whatever the resolver says
        found = socket.getaddrinfo("localhost" if local else host, port, type=socket.SOCK_STREAM)
        # One inner address among several is enough: the browser could be led to it.
        inner = [place[4][0] for place in found if not is_public(str(place[4][0]))]
        if inner and host not in self._allowed:
            shown = host[:120]
            self.refused[host] = f"{shown} is in an inner network ({inner[0]}); --allow-host {shown} allows it"
            raise InnerAddress(self.refused[host])
        # What is said if there is no address at all.
        problem: OSError = OSError(f"{host}: no address")
        for family, kind, protocol, _, place in found:
            made = socket.socket(family, kind, protocol)
            made.settimeout(CONNECT_S)
            try:
                made.connect(place)  # the address that was checked, not the name
            except OSError as error:
                made.close()
                problem = error
                continue
            made.settimeout(IDLE_S)
            return made
        raise problem


@contextmanager
def outside_proxy(allowed: Collection[str] = ()) -> Iterator[tuple[OutsideProxy, str]]:
    """A proxy on a free port of the loopback while the block lasts; (it, its address for the browser)."""
    proxy = OutsideProxy(allowed)
    handler = type("Handler", (_Connection,), {"proxy": proxy})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="outside-proxy", daemon=True)
        thread.start()
        try:
            yield proxy, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(5)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


class _Connection(socketserver.BaseRequestHandler):
    """One request: a tunnel (CONNECT), or a plain one that is passed on and closed behind its answer."""

    proxy: OutsideProxy

    def handle(self) -> None:
        client: socket.socket = self.request
        client.settimeout(IDLE_S)
        with suppress(OSError):
            head, rest = _read_head(client)
            # Latin-1 never fails; only the method and the target are read.
            method, _, target = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
            target = target.rpartition(" ")[0]
            try:
                upstream = self._reach(method, target)
            except InnerAddress as refused:
                _answer(client, 403, "Forbidden", str(refused))
                return
            except (OSError, ValueError) as error:
                _answer(client, 502, "Bad Gateway", str(error)[:200])
                return
            with upstream:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    upstream.sendall(rest)
                else:
                    upstream.sendall(_as_origin(head, target) + rest)
                _relay(client, upstream)

    def _reach(self, method: str, target: str) -> socket.socket:
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        if not url.hostname or (method != "CONNECT" and url.scheme not in ("http", "ws")):
            raise ValueError(f"expected a host, found {target[:80]!r}")
        return self.proxy.connect(url.hostname, url.port or 80)


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """(the head with its last line break, what came behind the empty line). Raises `OSError` for one without end."""
    data = b""
    while b"\r\n\r\n" not in data:
        block = client.recv(1 << 16)
        if not block or len(data) > MAX_HEAD:
            raise OSError("no head")
        # Bounded, or a client could send a head without end.
        data += block
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n", rest


def _as_origin(head: bytes, target: str) -> bytes:
    """A request for a proxy as one for the server itself; `Connection: close`, but where it asks for a websocket."""
    first, *lines = head.removesuffix(b"\r\n").split(b"\r\n")
    url = urlsplit(target)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    words = first.decode("latin-1").split(" ")
    # Connection is ours to decide; Proxy- fields are between browser and proxy.
    kept = [line for line in lines if not line.lower().startswith((b"proxy-", b"connection:"))]
    upgrades = any(line.lower().startswith(b"upgrade:") for line in kept)
    kept.append(b"Connection: Upgrade" if upgrades else b"Connection: close")
    return b"\r\n".join([f"{words[0]} {path} {words[-1]}".encode("latin-1"), *kept]) + b"\r\n\r\n"


def _answer(client: socket.socket, status: int, word: str, text: str) -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status} {word}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close"
    client.sendall(head.encode() + b"\r\n\r\n" + body)


def _relay(client: socket.socket, upstream: socket.socket) -> None:
    """Bytes both ways until one side has no more, or nothing comes for `IDLE_S`."""
    other = {client: upstream, upstream: client}
    while True:
        ready, _, _ = select.select([client, upstream], [], [], IDLE_S)
        if not ready:
            return
        for one in ready:
            # One side closed: the other one has nobody left to talk to.
            if not (block := one.recv(1 << 16)):
                return
            other[one].sendall(block)
