"""What stands before the servers: the engine's own router, or weights where servers take unequal shares.

Routers of vLLM and SGLang balance by load and know pairs, but no weights; so servers of several engines, or
mixed servers of unequal shares, get nginx (`weight`, ngx_http_upstream_module), on Kubernetes an HTTPRoute of
the Gateway API, whose backends have weights. Pairs on Kubernetes are found by their pods' labels (vllm-router
and sglang_router: `--service-discovery`, `--prefill-selector`, `--decode-selector`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from planner.exporters.deployed import Deployed, Files, account, deployment, made, script, service, yaml
from planner.launch.words import ROUTER_PORT, ROUTERS, port_of, quoted, router
from planner.plans.schema import Plan

START = "Then the router, if there is one; `nginx.conf` is for nginx, which sends shares by weight."
"""How it is started."""

WATCHING = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
"""The router's right to see pods."""

EVEN = 0.02
"""Shares of servers that differ by less than this are equal."""


def files(d: Deployed, hosts: Mapping[str, str] | None = None) -> Files:
    """Before servers that are reached by name and port; nothing before a single one. `hosts`: by server, in
    place of the node that the plan names."""
    if len(d.instances) < 2:
        return {}
    weights = by_server(d)
    if weights and (len({r.engine for r in d.plan.replicas}) > 1 or not _even(weights.values())):
        return {"nginx.conf": _nginx(d, weights, hosts or {})}
    words = router(d.instances, hosts, d.plan.router_port or ROUTER_PORT)
    found = {"disaggregated.yaml": _pairs(d)} if words[:1] == ["trtllm-serve"] else {}
    return {**found, "router.sh": script(quoted(words), "the router")} if words else found


def on_kubernetes(d: Deployed) -> Files:
    """A route with the weights of groups, or a router that finds the pods of pairs."""
    roles = {r.role for r in d.plan.replicas}
    if roles == {"mixed"} and len(d.plan.replicas) > 1:
        return {"route.yaml": yaml(_route(d))}
    engines = {r.engine for r in d.plan.replicas}
    if roles != {"prefill", "decode"} or len(engines) > 1 or not engines <= set(ROUTERS):
        return {}
    own_router = ROUTERS[engines.pop()]
    argv = next(r.launch.argv for r in d.plan.replicas if r.launch)
    words = [*own_router.in_pod, "--host", "0.0.0.0", "--port", f"{ROUTER_PORT}"]
    words += [own_router.pairs, "--service-discovery"]
    for role in ("prefill", "decode"):
        words += [f"--{role}-selector", f"app={d.name}", f"role={role}"]
    words += ["--service-discovery-port", str(port_of(argv))]
    d.assumed.append(f"ROUTER_IMAGE in router.yaml is an image with {own_router.package}")
    own = f"{d.name}-router"
    container = {"name": "router", "image": "ROUTER_IMAGE", "command": words[:1], "args": words[1:]}
    spec = {"serviceAccountName": own, "containers": [container]}
    labels = {"app": own}
    pods, address = deployment(own, labels, 1, spec), service(own, labels, ROUTER_PORT)
    return {"router.yaml": yaml(*account(own, WATCHING), pods, address)}


def by_group(plan: Plan) -> dict[str, float]:
    """The share of all requests that each mixed group takes; nothing where other roles take part."""
    if any(r.role != "mixed" for r in plan.replicas):
        return {}
    buckets = plan.problem.workload["buckets"]
    shares = [float(b.get("share", 1.0)) for b in buckets]
    found = dict.fromkeys((r.id for r in plan.replicas), 0.0)
    for route in plan.routing:
        if route.replica in found:
            found[route.replica] += shares[route.bucket] * route.share / sum(shares)
    return found


def by_server(d: Deployed) -> dict[str, float]:
    """The share of each server, by its name."""
    groups = by_group(d.plan)
    return {i.name: groups[i.replica.id] / i.replica.count for i in d.instances} if groups else {}


def _even(shares: Collection[float]) -> bool:
    return max(shares) - min(shares) <= EVEN * max(shares)


def weighed(shares: Mapping[str, float]) -> dict[str, int]:
    """Whole weights, 100 for the largest and at least 1.

    >>> weighed({"a": 0.6, "b": 0.3, "c": 0.001})
    {'a': 100, 'b': 50, 'c': 1}
    """
    most = max(shares.values()) or 1.0
    return {name: max(round(100 * share / most), 1) for name, share in shares.items()}


def _nginx(d: Deployed, weights: Mapping[str, float], hosts: Mapping[str, str]) -> str:
    """Proxying without buffers, as answers come token by token."""
    told = weighed(weights)
    upstream = [
        f"    server {hosts.get(i.name, i.head)}:{i.port} weight={told[i.name]};  # {i.name}"
        for i in d.instances
    ]
    return "\n".join(
        [
            "events {}",
            "http {",
            "  upstream servers {",
            *upstream,
            "  }",
            "  server {",
            f"    listen {d.plan.router_port or ROUTER_PORT};",
            "    location / {",
            "      proxy_pass http://servers;",
            "      proxy_http_version 1.1;",
            "      proxy_buffering off;",
            "      proxy_read_timeout 1h;",
            "    }",
            "  }",
            "}",
            "",
        ]
    )


def _pairs(d: Deployed) -> str:
    """TensorRT-LLM's front for pairs: servers that prefill are its context servers, others generate."""
    told: dict[str, Any] = {"hostname": "0.0.0.0", "port": d.plan.router_port or ROUTER_PORT}
    told["backend"] = "pytorch"
    for role, name in (("prefill", "context_servers"), ("decode", "generation_servers")):
        urls = [f"{i.head}:{i.port}" for i in d.instances if i.replica.role == role]
        told[name] = {"num_instances": len(urls), "urls": urls}
    return yaml(told)


def _route(d: Deployed) -> dict[str, Any]:
    shares = weighed(by_group(d.plan))
    backends = [
        {"name": d.label_of(r), "port": port_of(r.launch.argv), "weight": shares[r.id]}
        for r in d.plan.replicas
        if r.launch
    ]
    d.assumed.append("GATEWAY in route.yaml is the Gateway that requests come in by")
    spec = {"parentRefs": [{"name": "GATEWAY"}], "rules": [{"backendRefs": backends}]}
    return made("gateway.networking.k8s.io/v1", "HTTPRoute", d.name, spec=spec)
