"""What becomes of training output in a run: attempts, sessions, lost work and causes, from tables that are written.

The main job writes the rows of logs where it parses them. When all tables stand in the staging folder, this step reads
what little it needs of them, decides, and writes the parts anew that change. A run without training output has none of
its tables there and does not come here.
"""
