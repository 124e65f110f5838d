"""The only room that knows how environments are stepped in parallel. Autoreset ends here."""
