"""Images, boxes and detectors: reading, crops, backbones, features, proposals, evaluation."""
