"""TL8: distributed training and frameworks."""
