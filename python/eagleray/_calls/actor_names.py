"""Which names actors have."""

from __future__ import annotations

from eagleray import _native


def list_named_actors(all_namespaces: bool = False) -> list[str] | list[dict[str, str]]:  # noqa: FBT001, FBT002
    """List the names of all actors that live or restart.

    Args:
        all_namespaces: False: names in the namespace of this program. True: in every namespace, each as a dictionary
            with the keys `name` and `namespace`.
    """
    _native.ensure_started()
    namespace = str(_native.identity()["namespace"])
    found = list(_native.actor_names(namespace, all_namespaces))
    from eagleray._driver.session import SESSION

    if SESSION.local is not None:
        found += [known for known in SESSION.local.all_names() if all_namespaces or known[0] == namespace]
    if all_namespaces:
        return [{"name": name, "namespace": namespace} for namespace, name in found]
    return [name for _, name in found]
