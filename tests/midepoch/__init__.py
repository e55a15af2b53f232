"""Tests of the library, a file for each of its files."""
