"""Images in, features out: crops, backbones, cached features."""
