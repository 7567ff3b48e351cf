"""What a harvested page may reach: no service of an inner network, by no name, redirect, frame, script or socket."""

from __future__ import annotations

import http.server
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_project.cli import main
from generators.harvesting.outside_proxy import InnerAddress, OutsideProxy, is_public, outside_proxy
from generators.harvesting.web_sites import open_site
from generators.tasks.world_interface import WorldError

ALIAS = "public.example"
"""A name that the test's resolver points at the loopback, and that is allowed: it stands for a server outside."""


class Service(http.server.BaseHTTPRequestHandler):
    """A service of the inner network that notes who asks; `/page` is a page that tries to show it."""

    asked: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        self.asked.append((self.headers["Host"], self.path))
        port = self.server.server_address[1]  # type: ignore[attr-defined]
        inner = f"127.0.0.1:{port}"
        body = b"<title>inner</title>secret"
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", f"http://{inner}/secret")
            self.end_headers()
            return
        if self.path == "/page":
            body = f"""<title>outer</title><iframe src="http://{inner}/frame"></iframe><img src="http://{inner}/image">
            <iframe src="http://localhost:{port}/frame2"></iframe><iframe src="http://[::1]:{port}/frame3"></iframe>
            <iframe src="http://2130706433:{port}/frame4"></iframe><link rel=stylesheet href="http://{inner}/style">
            <script>fetch('http://{inner}/fetch', {{mode: 'no-cors'}}).catch(() => 0);
            new WebSocket('ws://{inner}/socket'); open('http://{inner}/window');</script>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing is said of requests."""


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    resolve = socket.getaddrinfo

    def resolver(host: Any, *args: Any, **how: Any) -> Any:
        return resolve("127.0.0.1" if host in (ALIAS, "rebound.example") else host, *args, **how)

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    handler = type("Handler", (Service,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1], handler.asked  # type: ignore[attr-defined]
        server.shutdown()


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fc00::1", False),
        ("fd00:ec2::254", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("2002:7f00:1::", False),
        ("64:ff9b:1::a9fe:a9fe", False),
        ("::a9fe:a9fe", False),
        ("::ffff:0:127.0.0.1", False),
        ("2606:2800::5efe:10.0.0.1", False),
        ("fec0::1", False),
        ("192.0.0.8", False),
    ],
)
def test_addresses_of_inner_networks_are_known(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(service: tuple[int, Any]) -> None:
    port, asked = service
    proxy = OutsideProxy()
    with pytest.raises(InnerAddress, match=r"rebound\.example is in an inner network .*--allow-host rebound\.example"):
        proxy.connect("rebound.example", port)
    assert list(proxy.refused) == ["rebound.example"] and asked == []
    OutsideProxy(["rebound.example"]).connect("REBOUND.example", port).close()


def test_the_proxy_passes_requests_on_and_refuses_the_rest(service: tuple[int, Any]) -> None:
    port, asked = service
    with outside_proxy([ALIAS]) as (_, through):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": through}))
        with opener.open(f"http://{ALIAS}:{port}/a?b=c", timeout=10) as answer:
            assert b"secret" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            opener.open(f"http://127.0.0.1:{port}/a", timeout=10)
        with pytest.raises(urllib.error.HTTPError, match="403"):  # a redirect is a request like any other
            opener.open(f"http://{ALIAS}:{port}/redirect", timeout=10)
    assert asked == [(f"{ALIAS}:{port}", "/a?b=c"), (f"{ALIAS}:{port}", "/redirect")]


@pytest.mark.real_parts
def test_a_page_shows_nothing_of_the_inner_network(service: tuple[int, Any]) -> None:
    port, asked = service
    with open_site(f"http://{ALIAS}:{port}/page", [ALIAS]) as site:
        page = site.show(f"http://{ALIAS}:{port}/page", 800, 600)
        page.wait_for_timeout(1000)
        assert page.title() == "outer"
        for host, path in ((ALIAS, "redirect"), ("127.0.0.1", "page"), ("localhost", "page"), ("2130706433", "page")):
            with pytest.raises(WorldError, match="inner network"):
                site.show(f"http://{host}:{port}/{path}", 800, 600)
    assert {host for host, _ in asked} == {f"{ALIAS}:{port}"}, "nothing was asked of the service by an inner name"


@pytest.mark.real_parts
def test_the_command_names_the_way_out(service: tuple[int, Any], tmp_path: Path) -> None:
    port, asked = service
    assert main(["harvest", "web", f"http://127.0.0.1:{port}/secret", "--out", str(tmp_path / "out")]) == 1
    assert "--allow-host 127.0.0.1" in (tmp_path / "out" / "report.json").read_text()
    assert asked == [] and not list((tmp_path / "out" / "images").iterdir())
