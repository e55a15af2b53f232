"""The library under both training programs: everything that has nothing to do with either framework."""
