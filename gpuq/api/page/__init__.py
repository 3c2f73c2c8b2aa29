"""The web application: templates rendered here, and small modules of script that keep them current and act.

`frame.py` is what every page has; `overview.py` and `queue.py` each collect what one page shows; the templates are beside them.
docs/web.md says why it is built so.
"""
