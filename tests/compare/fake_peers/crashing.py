"""As `exact`, but it fails."""

from tests.compare.fake_peers.exact import train

if __name__ == "__main__":
    train(remember_place=True, fail_at=12)
