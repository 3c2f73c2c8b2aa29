from tests.adapters.stand_in import library, run
from tests.support.redis import redis_server

__all__ = ["library", "redis_server", "run"]
