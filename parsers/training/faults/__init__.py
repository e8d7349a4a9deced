"""Faults: what went wrong, by class of the failure taxonomy. A file for each domain."""
