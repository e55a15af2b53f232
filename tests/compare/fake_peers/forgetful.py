"""As `exact`, but after a resume it begins another epoch, as an iterator does that nobody has saved."""

from tests.compare.fake_peers.exact import train

if __name__ == "__main__":
    train(remember_place=False)
