"""The lease authority's `/metrics`: what Prometheus reads of leases, queue, devices, refusals and time."""

from __future__ import annotations

import re
from pathlib import Path

import gateway_parts as parts

from generators.devices.metrics import CONTENT_TYPE

SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')


def scraped(gateway: parts.Gateway) -> dict[tuple[str, str], float]:
    """{(name, labels): value}, every line held to the text format: HELP and TYPE once, before their samples."""
    import httpx

    reply = httpx.get(f"{gateway.url}/metrics")
    assert reply.status_code == 200 and reply.headers["content-type"] == CONTENT_TYPE and reply.text.endswith("\n")
    kinds: dict[str, str] = {}
    found: dict[tuple[str, str], float] = {}
    for line in reply.text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word == "HELP" or name not in kinds
            kinds |= {name: rest} if word == "TYPE" else {}
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        base = re.sub(r"_(bucket|sum|count)$", "", sample[1])
        assert kinds.get(sample[1]) in ("gauge", "counter") or kinds.get(base) == "histogram", line
        assert (sample[1], sample[2] or "") not in found
        found[sample[1], sample[2] or ""] = float(sample[3])
    return found


def test_metrics_show_what_the_authority_does(tmp_path: Path) -> None:
    few = [{**key, "max_leases": 2} if key["name"] == "anna" else key for key in parts.KEYS]
    gateway = parts.Gateway(tmp_path)
    try:
        gateway.start_authority(probe_s=0, keys=few)
        p = "vesper_authority_"
        assert scraped(gateway)[p + "nodes", ""] == 0
        for name in ("secret-device-1", "secret-device-2"):
            gateway.register(name, 9)
        gateway.call("POST", "/v1/devices/secret-device-2/failure", reason="x")

        def ask(request: str, key: str = parts.CLIENT) -> int:
            return gateway.call("POST", "/v1/leases", key, request=request, protocol="ssh")[0]

        assert [ask("a"), ask("b"), ask("c"), ask("d", "no-key-of-anybody---")] == [200, 200, 400, 401]
        assert ask("e", parts.NODE) == 403 and ask("w", parts.OTHER) == 202
        assert gateway.call("POST", "/v1/leases/none/release", parts.CLIENT, fence=1)[0] == 404
        assert gateway.call("POST", "/v1/leases", parts.CLIENT, request=1)[0] == 400
        seen = scraped(gateway)
        states = {"free": 0, "held": 2, "down": 0, "quarantined": 0}
        assert {name: seen[p + "devices", f'protocol="ssh",state="{name}"'] for name in states} == states
        assert seen[p + "leases", 'protocol="ssh"'] == 2 and seen[p + "requests_waiting", 'protocol="ssh"'] == 1
        refused = {"key": 1, "role": 1, "quota": 1, "unknown": 1, "input": 1}
        assert {why: seen[p + "refused_total", f'why="{why}"'] for why in refused} == refused
        route = 'route="POST /v1/leases"'
        assert seen[p + "request_seconds_count", route] == 5 == seen[p + "request_seconds_bucket", f'{route},le="+Inf"']
        buckets = [value for (name, labels), value in seen.items() if name.endswith("_bucket") and route in labels]
        assert buckets == sorted(buckets) and seen[p + "request_seconds_sum", route] > 0
        whole = repr(seen)
        assert not any(word in whole for word in ("secret-device", "anna", "bert")), "no device and no holder is named"
    finally:
        gateway.stop()
