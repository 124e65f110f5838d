"""Many runs: several seeds of a recipe, and the search for better settings."""
