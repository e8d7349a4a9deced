"""Launchers and runtimes: workers that start, fail, and start again. A file for each."""
