"""Measuring campaigns: each workload of a list alone, then in pairs, on one device; `gpuq characterize`.

workload_list.py  reads the list of workloads          run.py        measures one job or one pair
plan.py           chooses what is measured next        guard.py      refuses to measure beside other load
device.py         opens the device                     ledger.py     keeps every run
child.py          one process of a workload            session.py    describes the machine and its software
monitor.py        all processes of a run               files.py      writes the tables of docs/characterize.md
steady_state.py   finds warm-up and confidence         progress.py   shows progress on stderr
campaign.py       one start of it all                  command.py    the verb
"""
