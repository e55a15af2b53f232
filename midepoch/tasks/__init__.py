"""Worked examples of tasks."""
