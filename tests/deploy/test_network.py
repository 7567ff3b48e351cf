"""Who may connect to which part of the chart, which image it runs, and what is in the image."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

from helm_chart import rendered

ROOT = Path(__file__).parents[2]


def _policies(values: Any = None) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for _, one in rendered(values) if one["kind"] == "NetworkPolicy"}


def _chosen(selector: Any) -> set[str]:
    wanted = selector.get("matchLabels", {}).get("app")
    return {wanted} if wanted else set(selector["matchExpressions"][0]["values"])


def _pods() -> dict[str, set[int]]:
    """Label → ports of its pods."""
    found: dict[str, set[int]] = {}
    for _, one in rendered():
        if one["kind"] in ("Deployment", "StatefulSet"):
            pod = one["spec"]["template"]
            ports = {port["containerPort"] for box in pod["spec"]["containers"] for port in box.get("ports", [])}
            found[pod["metadata"]["labels"]["app"]] = ports
    return found


def test_every_pod_has_a_policy_that_opens_its_own_ports_alone() -> None:
    pods, covered = _pods(), set[str]()
    for spec in _policies({"network": {"web": [{"podSelector": {}}]}}).values():
        chosen = _chosen(spec["podSelector"])
        assert chosen <= set(pods) and spec["policyTypes"] == ["Ingress"]
        covered |= chosen
        opened = {port["port"] for rule in spec.get("ingress", []) for port in rule["ports"]}
        assert opened == set().union(*(pods[name] for name in chosen))
        for rule in spec.get("ingress", []):
            for peer in rule["from"]:
                if peer["podSelector"]:
                    assert _chosen(peer["podSelector"]) <= set(pods)
    assert covered == set(pods)


def test_pods_with_metrics_say_where_they_are_scraped() -> None:
    for _, one in rendered():
        if one["kind"] in ("Deployment", "StatefulSet"):
            pod = one["spec"]["template"]
            named = pod["metadata"]["labels"]["app"].rpartition("-")[2]
            marks = pod["metadata"].get("annotations", {})
            wanted = {"authority": "7300", "node": "7301"}.get(named)
            assert marks.get("prometheus.io/port") == wanted and ("prometheus.io/scrape" in marks) == bool(wanted)


def test_nobody_outside_reaches_anything_unless_named() -> None:
    closed = _policies()
    assert "ingress" not in closed["vesper-web"] and len(closed["vesper-gateway"]["ingress"]) == 1
    outside = [{"namespaceSelector": {"matchLabels": {"team": "agents"}}}]
    opened = _policies({"network": {"web": outside, "gateway": outside}})
    assert opened["vesper-web"]["ingress"][0]["from"] == outside
    assert opened["vesper-gateway"]["ingress"][1]["from"] == outside


def test_an_image_is_named_by_its_digest_where_one_is_given() -> None:
    def images(values: Any) -> set[str]:
        return {
            box["image"]
            for _, one in rendered(values)
            if one["kind"] in ("Deployment", "StatefulSet")
            for box in one["spec"]["template"]["spec"]["containers"]
        }

    assert images(None) == {"vesper:latest"}
    assert images({"image": {"digest": "sha256:" + "0" * 64}}) == {"vesper:latest@sha256:" + "0" * 64}


def test_the_bill_of_materials_lists_what_is_installed() -> None:
    spec = importlib.util.spec_from_file_location("make_sbom", ROOT / "deploy" / "make_sbom.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    bill = module.bill(module.installed())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["pyarrow"]["version"] == importlib.metadata.version("pyarrow")
    assert parts["pyarrow"]["purl"] == f"pkg:pypi/pyarrow@{parts['pyarrow']['version']}"
    assert len({part["bom-ref"] for part in parts.values()}) == len(parts) > 50
    locked = module.bill(module.locked((ROOT / "constraints.txt").read_text()))["components"]
    versions = {part["name"]: part["version"] for part in locked}
    assert versions["pyarrow"] == parts["pyarrow"]["version"] and len(versions) == len(locked) > 200
    assert all(len(one["content"]) == 64 for part in locked for one in part["hashes"])
