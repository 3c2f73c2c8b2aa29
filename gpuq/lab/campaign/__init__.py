"""Measuring campaigns: each workload alone, then in pairs, on one device; `gpuq characterize`.

`work` reads the list, `plan` says what is measured next, `place` on which device, `steady` when a rate may be believed, `child`
is one process of a workload, `watch` all of a run; `run` measures one job or one pair with them, in the times of `timing`;
`guard` refuses beside other load, `ledger` keeps every run, `files` makes the tables of docs/learning.md from it, `made` says
on what it was made. `campaign` is one start of it all, `tell` what a person hears of that, `command` the verb.
"""
