from small_run_fixtures import cache, corpus, make_config, one_thread

__all__ = ["cache", "corpus", "make_config", "one_thread"]
