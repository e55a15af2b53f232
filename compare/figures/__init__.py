"""The figures of a report, drawn from what report.json holds."""
