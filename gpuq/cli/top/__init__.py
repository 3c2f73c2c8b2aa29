"""`gpuq top`: devices, queue and jobs on one screen of the terminal, with Textual. Only its verb imports this package.

`feed` reads the API, `lines` makes lines of what it says, `panes` shows lines of which one is chosen, `screens` are those of a
job and of a device, `app` is the first screen and what the keys do.
"""
