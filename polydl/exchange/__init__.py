"""Programs and schedules as other polyhedral tools read and write them."""
