"""Peers that need nothing and are quick, with the interface of compare/peers."""

from compare.peers import Peer

PEERS = (
    Peer("exact", "counts on its fingers", "remembers its place", "", ("python",)),
    Peer("forgetful", "counts on its fingers", "starts the epoch again", "", ("python",)),
    Peer("crashing", "never gets far", "does not", "", ("python",)),
    Peer("absent", "is not here", "cannot", "", ("unobtainium",)),
)


def why_not(peer):
    """As that of compare/peers."""
    return "it needs the package unobtainium: pip install unobtainium" if "unobtainium" in peer.packages else None
