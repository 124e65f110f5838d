"""Pure functions and plain data. Imports only torch and numpy."""
