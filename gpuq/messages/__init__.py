"""The types that cross a border between processes, each declared once: outcomes, the live view, verdict sentences.

Worker, dispatcher, record, API and learning use them unchanged; JSON keys come from the field names. The package itself imports
nothing, because the command imports one module of it and must start fast.
"""
