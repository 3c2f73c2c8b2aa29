"""Sends notifications about a user's jobs: a process of the user's own, and a client of the HTTP API like the command.

- `watch`: which messages a look at the user's jobs gives rise to. Pure.
- `outbox`: what is to be sent to which target, kept on disk until it was; apprise sends it.
- `serve`: looks at the jobs again and again, and sends. `python -m gpuq.notifier` is `gpuq notify run`.

Neither the dispatcher nor the API has part in it: they hold names of targets only, and a target that does not answer makes no
job wait.
"""
