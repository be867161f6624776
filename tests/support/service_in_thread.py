"""A service that listens on a free port of this machine, in a thread of the tests."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from predictors.service.api.app import Api
from predictors.service.api.lifecycle import Listening
from predictors.service.api.server import made_server
from predictors.service.client import Client
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.service import Service


@dataclass
class Running:
    """A service at work."""

    service: Service
    api: Api
    url: str
    clients: ExitStack

    def client(self, **options) -> Client:
        """Return a client of it, which hangs up at its end."""
        client = Client(self.url, **({"timeout": 300.0} | options))  # a first answer may compile
        return self.clients.enter_context(client)

    def learnt(self, sequence: int | None = None) -> None:
        """Wait until an event, or every event, has been learnt."""
        done = threading.Event()
        self.service.learner.when(sequence or self.service.job_state.sequence, done.set)
        assert done.wait(300)


@contextmanager
def running(
    folder, model="last-two", *, parts=(), listening=None, starts=None, variability_state=None, key=None, **settings
) -> Iterator[Running]:
    if "db" not in settings:
        folder.mkdir(parents=True, exist_ok=True)
        settings["db"] = f"sqlite:///{folder}/service.db"
    service = Service(Settings(model=model, **settings), *parts, key=key or Pseudonymiser())
    api = Api(service, service.key, starts, variability_state)
    listening = listening or Listening(port=0)
    server, opened = made_server(api, listening)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    try:
        service.wait(600)
        while not server.started:
            time.sleep(0.01)
        with ExitStack() as clients:
            yield Running(service, api, f"http://127.0.0.1:{opened.getsockname()[1]}", clients)
    finally:
        server.should_exit = True
        thread.join(120)
