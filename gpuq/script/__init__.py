"""What a command and its script say of the job before it runs. Scripts are read, never run; standard library only.

`options` parses options and lists those that change what a job needs; `source` reads and parses the script and
what it imports from beside it; `survey` collects what matters in them; `values` evaluates expressions under a command, with
`operations` on plain values; `configs` reads the configuration files that a command names, `own_configs` finds those that a
script reads by itself, by `hydra` and `path_texts`; `fingerprint` says whether two versions of a program may differ in what they
need; `program` finds what a command runs behind `launchers`, `containers` and `shell` code. With these, `frameworks` finds
what drives the training, `network` what is trained, `settings` and `tunables` how; `hints` combines all of it for the client
to send. What cannot be read, parsed or decided is left out: nothing here raises.
"""
