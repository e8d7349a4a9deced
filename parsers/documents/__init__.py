"""Formats that are read as a whole, in order: JSON documents, tables with a header, reports of a tool.

What is read line by line stands one folder up; a log is read without any module of this folder.
"""
