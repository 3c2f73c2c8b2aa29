"""The types that cross a border between processes, each declared once.

`submission` is a job as it is handed in, `wire` what travels over Redis, `outcome` what was measured of an attempt, `live` what
the dispatcher shows, `verdicts` its texts; `codec` makes events and actions into JSON and back. Worker, dispatcher, record, API
and learning use them unchanged, and JSON keys come from the field names. The package itself imports nothing, because the command
imports two modules of it and must start fast.
"""
