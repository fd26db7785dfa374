"""Metrics that a neural network computes: BERTScore, CLIPScore and their kin (`captau[neural]`)."""
