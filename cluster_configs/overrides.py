"""Devices of a cluster: the catalog's, with the cluster's own figures (`device_overrides`) put over them, and
those that the cluster file describes itself (`devices`), which stand before the catalog's."""

from __future__ import annotations

from collections.abc import Mapping

from cluster_configs.devices import find
from cluster_configs.own import own_device, taken_over
from cluster_configs.schema import Cluster, Device
from planner.errors import InputError, squash
from planner.reading.documents import Document, Loc
from planner.reading.validation import validate_part

FIXED = ("name", "also", "sources")
"""Fields that no override may touch."""


class Catalog:
    """Finds the devices of one cluster. Overrides are checked when this is made; raises InputError."""

    def __init__(
        self, cluster: Cluster, document: Document, devices: Mapping[str, Device] | None = None
    ) -> None:
        self._document = document
        self._given = None if devices is None else {squash(d.name): d for d in devices.values()}
        self._overridden: dict[str, Device] = {}
        self._used: set[str] = set()
        own = cluster.devices or {} if self._given is None else {}
        self._own = {squash(name): own_device(name, form) for name, form in own.items()}
        self._taken_over = {name: said for name, form in own.items() if (said := taken_over(name, form))}
        if self._given is None:
            for name in cluster.device_overrides:
                self._override(name, cluster.device_overrides[name])

    def find(self, name: str, at: Loc) -> Device:
        """The device called `name` at that place of the document."""
        if self._given is not None:
            if squash(name) not in self._given:
                raise self._document.error(f"device `{name}` is not among the embedded ones", at)
            return self._given[squash(name)]
        device = self._of_catalog(name, at)
        self._used.add(device.name)
        return self._overridden.get(device.name, device)

    def warnings(self) -> list[str]:
        """Overrides of devices that no node has; what was taken for devices of one's own."""
        unused = [name for name in self._overridden if name not in self._used]
        return [
            *(f"device_overrides names {name}, but no node has this device" for name in unused),
            *(
                f"devices names {d.name}, but no node has it"
                for d in self._own.values()
                if d.name not in self._used
            ),
            *(said for name, said in self._taken_over.items() if name in self._used),
        ]

    def _of_catalog(self, name: str, at: Loc, of_key: bool = False) -> Device:
        if own := self._own.get(squash(name)):
            return own
        try:
            return find(name)
        except InputError as error:
            raise InputError(error.message, self._document.where(at, of_key), error.hint) from None

    def _override(self, name: str, fields: Mapping[str, object]) -> None:
        at: Loc = ("device_overrides", name)
        device = self._of_catalog(name, at, of_key=True)
        if device.name in self._overridden:
            raise self._document.error(
                f"`{device.name}` is overridden twice", at, "put all fields under one name", True
            )
        for field in FIXED:
            if field in fields:
                raise self._document.error(f"`{field}` cannot be overridden", (*at, field), of_key=True)
        old = device.model_dump(mode="json", exclude_none=True)
        new = {**old, **fields}
        if isinstance(fields.get("tflops"), dict):
            new["tflops"] = {**old["tflops"], **fields["tflops"]}  # type: ignore[dict-item]
        new["sources"] = {**old["sources"], "overrides": f"the cluster's own: {', '.join(sorted(fields))}"}
        self._overridden[device.name] = validate_part(self._document, Device, new, at)
