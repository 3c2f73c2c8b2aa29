"""What a command and its script say of the job before it runs. Read, never run; standard library only.

`options` knows how options are written and which of them change what a job needs; `source` reads and parses the script and
what it imports from beside it; `survey` finds in them what matters; `values` works out what an expression comes to under a
command, with `operations` on plain values; `configs` reads the configuration files that a command names. With these,
`frameworks` names what drives the training, `network` what is trained, and `settings` how; `hints` puts it all together for the client to send, in bounded words (`word`). Whatever cannot
be read, parsed or settled is left out: nothing here raises.
"""
