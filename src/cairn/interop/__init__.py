"""Other libraries' files and interfaces."""
