"""What people see of a simulation: figures of each run, their medians over seeds, a table, JSON, and one HTML page.

figures.py    a run's figures, each with its definition     plot_data.py, plots.py, svg.py   what the page draws
occupancy.py  which attempts had which device when          page.py, page.html, page.css     the page
summary.py    medians and ranges over seeds                 table.py                         the table of the terminal
headline.py   the result in sentences                       report.py                        everything, and it as JSON
"""
