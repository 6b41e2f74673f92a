"""A driver's own node in a cluster that has no node on its machine, or none of this user."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from eagleray._node import facts, hosting, membership, tokens

if TYPE_CHECKING:
    from eagleray._node.addresses import Address


def host(wants: hosting.Wants, head: Address) -> Any:
    """Start it in this process, and wait until the cluster knows it. What keeps it out is raised, and nothing of it is left."""
    member = membership.join_as_guest(head, tokens.find(None, None))
    session_dir = hosting.new_session_dir(wants)
    node = hosting.host_node(dataclasses.replace(wants, prestart=0), session_dir=session_dir, membership=member)
    try:
        node.await_member(membership.JOIN_SECONDS_MAX)
        facts.keep(membership.facts_of(node, member, session_dir))
    except BaseException:
        node.stop()
        raise
    return node
