"""What goes along with the kernels of a simulation, and answers most of their pauses."""

from dataclasses import dataclass, replace
from typing import Self

import schedsim.kernels.records as at
from schedsim.engine import learning
from schedsim.engine.commands import SiteCommands
from schedsim.engine.machine_state import MachineState
from schedsim.engine.placing import Placing
from schedsim.engine.requests import answer, begin_outages, open_nodes, with_change, write_machine_state
from schedsim.engine.state import EventLog, State
from schedsim.kernels.places.records import NodeArrays
from schedsim.kernels.records import State as Record
from schedsim.machine.failures import FailureProcess
from schedsim.machine.run_times import Progress
from schedsim.policies.policy import Policy
from schedsim.sites.cobalt.rules import Rules
from schedsim.sites.slurm.state import LoopsNow
from schedsim.workload.workload import Workload


@dataclass(eq=False)
class Companions:
    """The parts of a simulation outside its kernels; None where it does not need one."""

    machine: MachineState | None  # nodes that have numbers, a model of run times, failures
    placing: Placing | None  # the nodes of a machine file
    commands: SiteCommands | None  # of a site's users and operators
    loops: LoopsNow | None  # Slurm's
    learner: learning.Learner | None = None
    read: int = 0  # events of the log that the machine has read

    def write(self, record: Record) -> None:
        """Write into a state which questions they require."""
        write_machine_state(record, self.machine)
        record.rules.restarts |= self.loops is not None and self.loops.preemption is not None

    def begun(self, workload: Workload, policy: Policy, rules: Rules | None, state: State, log: EventLog) -> State:
        """Apply what holds before the first second, and set the timers of what comes later; return the state."""
        if self.machine is not None:
            state = begin_outages(workload, state, log, self.machine, self.placing)
        if self.placing is not None:
            state.record.queue.finds_first = False
            state = open_nodes(state, self.placing.arrays.windows)
        if rules is not None and self.commands is not None:
            state.record.queue.finds_first = False
            rules.write(state.record, policy)
            state = self.commands.set_out(state)
        return state

    def fork(self) -> Self:
        """Return an independent copy; it does not learn."""
        return replace(
            self,
            machine=None if self.machine is None else self.machine.fork(),
            placing=None if self.placing is None else self.placing.fork(),
            commands=None if self.commands is None else self.commands.fork(),
            loops=None if self.loops is None else self.loops.fork(),
            learner=None,
        )

    @property
    def nodes(self) -> NodeArrays | None:
        """The arrays of the nodes, as the kernels take them."""
        return None if self.placing is None else self.placing.arrays

    @property
    def run_times(self) -> Progress | None:
        return None if self.machine is None else self.machine.progress

    @property
    def failing(self) -> FailureProcess | None:
        return None if self.machine is None else self.machine.failing

    def answer(self, stop: int, workload: Workload, policy: Policy, state: State, log: EventLog) -> State:
        """Do what a pause asks for; return the state, which may have moved."""
        if stop == at.GROW_SPOTS:
            assert self.placing is not None
            self.placing = self.placing.with_room_for_starts()
        elif stop == at.GROW_PLAN:
            assert self.placing is not None
            self.placing = self.placing.with_larger_plan()
            state.record.queue.profile_size = 0
        elif stop == at.GROW_STOPS:
            assert self.loops is not None
            self.loops = self.loops.with_room_for_stops()
        elif stop == at.GROW_CHOICES:
            learning.make_room(state)
        elif stop == at.ASK_LEARNER:
            self.tell_learner(state)
        else:
            self._advance(state, log)
            if stop == at.ASK_TIMER:
                return self._act_on_timer(state, log)
            return answer(stop, workload, policy, state, self.machine, self.placing)
        return state

    def tell_learner(self, state: State) -> None:
        """Tell the learner, if there is one, the picks that it has not seen."""
        if self.learner is not None:
            learning.tell(state, self.learner)

    def close(self, state: State) -> None:
        """Let no node fail or be repaired any more, and no command of a user come."""
        if self.failing is not None:
            self.failing.close()
        if self.commands is not None:
            state.close_failures()
            self.commands.close()

    def read_up_to(self, logged: int) -> int:
        """Return how many of so many events in the log all of them have read."""
        by_machine = logged if self.machine is None else self.read
        return by_machine if self.loops is None else min(by_machine, self.loops.read_up_to(logged))

    def drop(self, first: int, logged: int) -> None:
        """Go on without the first events of those logged."""
        self.read = (logged if self.machine is None else self.read) - first
        if self.loops is not None:
            self.loops.read(self.loops.read_up_to(logged) - first)

    def _advance(self, state: State, log: EventLog) -> None:
        if self.machine is not None:
            used = int(state.record.clock.n_logged)
            self.machine.advance(log.events[self.read : used], int(state.record.clock.now))
            self.machine.close_overrun(state)
            self.read = used

    def _act_on_timer(self, state: State, log: EventLog) -> State:
        """Do what is due now; the pass takes no answer from it, as a gate or an agent gives one."""
        clock = state.record.clock
        kind = int(clock.asked_about)
        clock.asked_about, clock.answer = -1, at.NOT_ANSWERED
        if kind != at.CHANGE:
            assert self.commands is not None
            return self.commands.act(state)
        assert self.machine is not None and self.machine.failing is not None
        following = self.machine.change(state, log, self.placing)
        return state if following is None else with_change(state, following, self.machine.failing)
