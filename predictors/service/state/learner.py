"""The one thread that learns: it follows the events behind the writer, and publishes what the models have learnt."""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

from predictors.service.state.jobs import Happened
from predictors.service.state.model import CHAMPION, Model

Command = Callable[[], None]


class Worker:
    """A thread and its queue of commands; `crashed` gets a failure that ends it: the process must then restart."""

    idle_seconds: float | None = None
    """Calls `idle` each time that nothing was handed over for so long [s]; None: never."""

    def __init__(self, name: str, crashed: Callable[[Exception], None]) -> None:
        self._queue: Final[SimpleQueue[Command | None]] = SimpleQueue()
        self._crashed: Final = crashed
        self._lock: Final = threading.Lock()
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Drain the queue and stop."""
        self._queue.put(None)
        self._thread.join()

    def do(self, command: Command) -> None:
        """Call a function after all that was handed over before."""
        self._queue.put(command)

    def idle(self) -> None:
        """Do what has time; for the thread."""

    def _run(self) -> None:
        try:
            while True:
                try:
                    command = self._queue.get(timeout=self.idle_seconds)
                except Empty:
                    command = self.idle
                if command is None:
                    return
                command()
        except Exception as error:  # whatever it is: what is half done must not go on
            self._crashed(error)


class Learner(Worker):
    """Models by role, each at the same event.

    Requests use what is published and do not wait for the learner, unless they ask for the state after an event
    (`when`). `keep` gets the predictions of record of each slice, to be stored; `crashed` is called with a failure that
    ends the thread: the process must restart from what is stored.
    """

    def __init__(self, keep: Callable[[Sequence[dict[str, Any]]], None], crashed: Callable[[Exception], None]) -> None:
        super().__init__("learner", crashed)
        self.models: dict[str, Model] = {}
        self.sequence = 0  # newest event learnt
        self.keep = keep
        self._waiting: list[tuple[int, Command]] = []
        self.pending = 0  # events handed over and not learnt yet

    @property
    def champion(self) -> Model:
        """The model that gives the answers."""
        return self.models[CHAMPION]

    def put(self, happened: Sequence[Happened], sequence: int) -> None:
        """Queue what happened until an event."""
        with self._lock:
            self.pending += len(happened)
        self.do(partial(self._learn, happened, sequence))

    def when(self, sequence: int, callback: Command) -> None:
        """Call a function as soon as an event has been learnt, at once if it has; it must not take long."""
        with self._lock:
            if self.sequence < sequence:
                self._waiting.append((sequence, callback))
                return
        callback()

    def assign(self, model: Model) -> None:
        """Give a model its role, and take the one that it had; only from a command."""
        self.models = {role: one for role, one in self.models.items() if one is not model} | {model.role: model}

    def follow(self, happened: Sequence[Happened], sequence: int) -> None:
        """Pass a slice of events to every model; for the thread, and for rebuilding before it starts."""
        for model in self.models.values():
            self.keep([model.record(one, answer) for one, answer in model.follow(happened, sequence)])
        with self._lock:
            self.sequence = sequence
            ready = [callback for least, callback in self._waiting if least <= sequence]
            self._waiting = [(least, callback) for least, callback in self._waiting if least > sequence]
        for callback in ready:
            callback()

    def _learn(self, happened: Sequence[Happened], sequence: int) -> None:
        self.follow(happened, sequence)
        with self._lock:
            self.pending -= len(happened)
