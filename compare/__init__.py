"""Runs both programs as real processes, kills them, measures, reports."""
