"""What people see of a simulation: figures of each run, their medians over seeds, a table, JSON, and one page.

figures.py   a run's figures, each with its definition     plots.py   what the page draws, as SVG
occupancy.py who had which device when                      page.py    the page
summary.py   medians and ranges over seeds, contributions   table.py   the table of the terminal
"""
