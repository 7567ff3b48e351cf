"""The chart's objects against the schemas of Kubernetes itself, with all that its values can switch on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from helm_chart import rendered

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="the extra dev installs it")

OLDEST, NEWEST = "1.29", "1.37"
"""What `docs/production.md` names; unknown fields are refused, as `kubectl apply` refuses them."""
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PROXY = {"podSelector": {"matchLabels": {"app": "proxy"}}}
VALUES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "all switched on": {
        "image": {"digest": f"sha256:{'0' * 64}"},
        "environmentSecret": "keys",
        "data": {"storageClass": "fast"},
        "environment": {"VESPER_TRAINER": '{"midtrain": {"max_steps": 2}}', "VESPER_STORE_URL": "s3://bucket/a: b"},
        "user": 1_000_660_000,
        "code": {"gpus": 8, "nodeSelector": {"gpu": "h100"}, "tolerations": [TAINT]},
        "network": {"web": [PROXY], "gateway": [PROXY, {"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "gateway": {"nodes": 5, "maxConnections": 2_000_000},
    },
}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("values", VALUES)
def test_every_object_is_one_that_kubernetes_knows(values: str, version: str) -> None:
    found = list(rendered(VALUES[values]))
    assert {"Deployment", "StatefulSet", "Service", "ConfigMap", "NetworkPolicy"} <= {one["kind"] for _, one in found}
    for _, one in found:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("path", ["spec.template.spec.containers.0.image", "spec.replicas", "spec.selector"])
def test_a_mistake_in_a_template_is_found(path: str) -> None:
    """A misspelled field, a text for a number, a part that is missing."""
    [whole] = [one for _, one in rendered() if one["metadata"]["name"] == "vesper-code" and one["kind"] == "Deployment"]
    broken = copy.deepcopy(whole)
    *above, last = path.split(".")
    place: Any = broken
    for name in above:
        place = place[int(name)] if name.isdigit() else place[name]
    if last == "image":
        place["imgae"] = place.pop(last)
    elif last == "replicas":
        place[last] = "one"
    else:
        del place[last]
    kubernetes_validate.validate(whole, NEWEST, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, NEWEST, strict=True)
