from run_fixtures import make_run, one_thread, vocabulary

__all__ = ["make_run", "one_thread", "vocabulary"]
