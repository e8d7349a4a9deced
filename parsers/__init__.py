"""Bytes to typed rows, without Beam.

Here: what all formats share, and the formats that are found line by line (``kernel`` is a folder, since it says much).
``envelopes``: what stands around a line. ``documents``: formats that are read as a whole.
"""
