"""TL6: speed, memory, devices."""
