"""The report page, and its pictures: curves, plans and films."""
