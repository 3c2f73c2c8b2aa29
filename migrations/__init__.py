"""The history of the record's schema, for Alembic. `gpuq.adapters.store.migrate` runs it.

In a checkout, `alembic check` compares it with `gpuq/adapters/store/schema.py`, on the database that GPUQ_DATABASE_URL names.
"""
