"""Tests; they mirror the folders at the top."""
