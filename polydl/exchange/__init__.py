"""Reads and writes programs and schedules in the formats of other polyhedral tools."""
