"""Peers that need nothing and are quick, with the interface of compare/peers."""

from typing import Callable, NamedTuple, Optional, Tuple


class Peer(NamedTuple):
    module: str
    title: str
    description: str
    packages: Tuple[str, ...]
    why_not: Callable[[], Optional[str]]


PEERS = (
    Peer("exact", "counts on its fingers", "remembers its place", ("python",), lambda: None),
    Peer("forgetful", "counts on its fingers", "starts the epoch again", ("python",), lambda: None),
    Peer("crashing", "never gets far", "does not", ("python",), lambda: None),
    Peer(
        "absent",
        "is not here",
        "cannot",
        ("unobtainium",),
        lambda: "it needs the package unobtainium: pip install unobtainium",
    ),
)
