"""Trainers: how each prints its steps, checkpoints and beginnings. A file for each."""
