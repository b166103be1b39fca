"""TL0: names and arguments that releases of torch dropped, renamed or deprecated."""
