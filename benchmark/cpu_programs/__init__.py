"""The programs that ``benchmark/cpu.py`` measures, one family a file, and what they are measured by."""
