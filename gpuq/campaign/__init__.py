"""Measuring campaigns: each workload alone, then in pairs, on one device; `gpuq characterize`.

`work` reads the list, `plan` says what is measured next, `steady` when a rate may be believed, `child` is one process of a
workload, `run` measures one job or one pair with them, `guard` refuses beside other load, `ledger` keeps every run, `files`
makes the tables of docs/learning.md from it, `made` says on what it was made, `command` is the verb.
"""
