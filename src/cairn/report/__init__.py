"""Pictures of what a policy does."""
