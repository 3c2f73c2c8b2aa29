from tests.adapters.stand_in import library, run, run_on_both
from tests.support.redis import redis_server

__all__ = ["library", "redis_server", "run", "run_on_both"]
