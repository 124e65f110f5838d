"""Vectors: many environments stepped together, in this process or in parallel. Autoreset modes end here."""
