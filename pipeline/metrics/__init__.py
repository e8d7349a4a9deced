"""What metrics showed around events: the windows that events ask for, and the samples in them, by columns."""
