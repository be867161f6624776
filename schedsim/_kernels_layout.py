"""What lies where in the engine's arrays: names of their columns and cells, codes of phases, pauses and policies.

The whole state of a simulation is three int64 arrays; a fork copies them and shares the rest.

* `live` (slots, RECORD): one record for each queued or running job.
* `blocks` (rows, ROW_LENGTH): the ordered lists (see `_kernels_ordered`).
* `clock` (CELLS and more,): the time, cursors, counters, and the policy as codes; then what node sets and accounts have
  used, where the site has rules.

Read-only or append-only, hence shared: `jobs` (n_jobs, 7; wider where the site has rules), `seconds` (roles, n_jobs)
the estimates [s] (or the answers of an outlook, a row each), `log` (n, 3) the events (time, kind, job row), `notes`
(n,) a number for each event.
"""

from typing import Final

# jobs: one row a job, sorted by (submit, job id)
SUBMIT: Final = 0
PROCS: Final = 1
REQUESTED: Final = 2
RUN_TIME: Final = 3
JOB_ID: Final = 4
RANK: Final = 5
"""Place of the job id among all: ends of one second that started together are in the order of their ids."""
DEADLINE: Final = 6
"""Second by which a job that may be postponed should have ended, or -1."""

# jobs, where the site has rules (`schedsim.rules`)
PARENT: Final = 7  # row of the job that must end before, or -1
THINK: Final = 8  # pause after its end [s]
FIRST_CHILD: Final = 9  # row, or -1
NEXT_CHILD: Final = 10  # of the same parent: row, or -1
LATER_CHILDREN: Final = 11  # how many of its children have later rows
ENDS_BADLY: Final = 12  # 1: it fails
ON_HOLD: Final = 13  # 1: submitted on hold by its user
IN_SET: Final = 14  # cell of the clock with its node set, or -1
IN_TIER: Final = 15  # tiers are served one after the other, whatever the scores
START_SCORE: Final = 16  # bits of a float
GROWTH: Final = 17  # bits of a float: score gained for each squared second of a tick
ACCOUNT: Final = 18  # cell of the clock with its account, or -1
ROUTED: Final = 19  # number of its queue
OVERBURNS: Final = 20  # 1: a spent account may run it in its third quarter
SITE_COLUMNS: Final = 21

# live: one record a queued or running job; also a held one, and an ended one that a child still to be submitted needs
ROW: Final = 0
WIDTH: Final = 1  # processors
LIMIT: Final = 2  # requested time
START: Final = 3
END: Final = 4
ESTIMATE: Final = 5  # valid now, for planning with a running job
FIRST: Final = 6  # the same when the job was submitted
CANDIDATE: Final = 7  # for asking whether a waiting job may start
RANKING: Final = 8  # for the order's key
KEY: Final = 9
BACKFILL_KEY: Final = 10
RESERVED: Final = 11  # 1 once the job held a reservation
PROMISE: Final = 12  # latest start that it was promised, or NEVER
TRIED: Final = 13  # number of the pass in which a gate held it
PLANNED: Final = 14  # start of its reservation, or NEVER
SPARE: Final = 15  # not of this record: the column is the stack of slots given back
SORTED: Final = 16  # not of this record: the column is room to sort slots in
RUN: Final = 17  # how long it runs if nobody stops it
HOLDS: Final = 18  # how often a gate held it, as counted
DUE: Final = 19  # while it is postponed: when it joins the queue at the latest; else NEVER
SCORE: Final = 20  # bits of a float: up to the ticks before `FROM`; once it runs: when it started
GAIN: Final = 21  # bits of a float: score gained for each squared second of a tick
SINCE: Final = 22  # submission and the time held since [s]: the eligible time counts from here
FROM: Final = 23  # the first second whose tick is not in `SCORE`
HOLD: Final = 24  # why it is held, bits below; 0: it is in the queue
HELD_AT: Final = 25  # since when [s]
SET: Final = 26  # cell of the clock with its node set, or -1
TIER: Final = 27
KIDS: Final = 28  # children still to be submitted
FATE: Final = 29  # 0 not ended, or below
QUEUE_NUMBER: Final = 30  # in which it waits
RECORD: Final = 31
# with an outlook, records are longer: the ladder of what to expect of the job once it has run for so long
RUNG: Final = RECORD  # the next rung
LADDER: Final = RECORD + 1  # columns LADDER + 2 i, + 1: from this elapsed time on [s] (NEVER: no more rungs), estimate

NEVER: Final = 1 << 62
FIRST_KEY: Final = -(1 << 63)  # no key is smaller
FIRST_TIE: Final = -1  # of those that are looked for
# names, since a literal in a call makes numba compile another function
NOTHING: Final = 0
NO: Final = 0
YES: Final = 1
DISPLACED: Final = -1

# blocks: a row is a leaf with entries, or a node with leaves; both begin with what they hold in sum
COUNT: Final = 0  # entries, or leaves
TOTAL: Final = 1  # sum of widths
NARROWEST: Final = 2  # least width
LEAST: Final = 3  # column LEAST + c: the shortest length among widths below 2**(c + 1)
CLASSES: Final = 29
BLOCK: Final = 16  # entries of a leaf at most
E_KEY: Final = 32  # column E_KEY + j: the key of the j-th entry, and so on
E_TIE: Final = E_KEY + BLOCK
E_SLOT: Final = E_TIE + BLOCK
E_WIDTH: Final = E_SLOT + BLOCK
E_LENGTH: Final = E_WIDTH + BLOCK
FIELDS: Final = 5
LEAF: Final = E_KEY  # column LEAF + j: the node's j-th leaf
FAN: Final = 32  # leaves of a node at most
UNUSED: Final = E_LENGTH + BLOCK  # not of this row: the stack of rows given back
NODE: Final = UNUSED + 1  # column NODE + list: not of this row, the list's i-th node

# the ordered lists
QUEUE: Final = 0  # waiting jobs by the order
BACKFILL: Final = 1  # waiting jobs by the backfill order, where it is another
RUNNING: Final = 2  # running jobs by estimated end
ENDS: Final = 3  # running jobs by real end
LIMITS: Final = 4  # running jobs by start + requested time, where promises are kept or processors are reserved
TIMERS: Final = 5  # (time, sequence number, kind, argument, wakes)
REVIEWS: Final = 6  # running jobs by the second of their next rung
POSTPONED: Final = 7  # jobs put off, by the order in which candidates for backfills are searched
KIN: Final = 8  # held jobs, and those with children still to be submitted, by row
LISTS: Final = 9
ROW_LENGTH: Final = NODE + LISTS

# clock
NOW: Final = 0
PHASE: Final = 1
FREE: Final = 2  # processors
MACHINE: Final = 3  # processors
NEXT_JOB: Final = 4  # first row not yet submitted
NEXT_QUEUED: Final = 5  # first row not yet in the queue
N_QUEUED: Final = 6
N_RUNNING: Final = 7
LOGGED: Final = 8  # rows used in `log`
EVENTS: Final = 9  # events so far, those in earlier chunks of the log included
SPARES: Final = 10  # height of the stack of slots given back
HIGH_SLOT: Final = 46  # slots from here on were never used
UNUSEDS: Final = 11  # height of the stack of rows of `blocks` given back
HIGH_BLOCK: Final = 47  # rows from here on were never used
CAUSE: Final = 12  # what made this instant, bits below
UNTIL: Final = 13  # stop before the first instant later than this
HEAD: Final = 14  # slot of the blocked head, or -1
SHADOW: Final = 15
EXTRA: Final = 16
STALE: Final = 17  # 1: the shadow must be computed anew
AFTER_KEY: Final = 18  # the pass has tried all entries up to here
AFTER_TIE: Final = 19
PASSES: Final = 20
ASKED: Final = 21  # slot (or row) that a pause asks about
ANSWER: Final = 22
KILLS: Final = 23
LAST_QUEUED: Final = 27  # slot
PROMISED: Final = 24  # the head's promise
BESIDE: Final = 25  # processors free beside the head at its promise
NEWCOMERS: Final = 28  # jobs queued at this instant
PLAN_SIZE: Final = 30  # columns of the plan; 0: there is none
RESERVATIONS: Final = 31  # in the plan
LAST_JOB: Final = 29  # no row from here on is submitted
N_TIMERS: Final = 26  # set so far
N_CLASSES: Final = 55  # of widths, on this machine
NODES: Final = 112  # cell NODES + list: nodes of the list; cells from 64 to here are for what comes
# the policy, as codes
ORDER: Final = 32
BACKFILL_ORDER: Final = 33
CANDIDATES: Final = 34  # which list is searched for backfills
DEPTH: Final = 35
CORRECTION: Final = 36
KILL: Final = 37
PROMISES: Final = 38
GATED: Final = 39
PICKED: Final = 40
IN_LOOP: Final = 41  # 1: a forecast is asked at submissions
SEED: Final = 42
WINDOW: Final = 43
REWARD: Final = 44
SEVERAL: Final = 45  # 1: candidates, running jobs and the order may have different estimates
OUTLOOK: Final = 56  # 1: `seconds` holds an outlook's answers
ANSWERS: Final = 57  # how many of them
ANSWERED: Final = 58  # how many of them are taken in
SLACK: Final = 59  # how much later than the shadow time by requested times a promise lies [s]
WORLD: Final = 60  # 1: the client says when running jobs end
SETTLED: Final = 61  # how many events it knew when it last did; -1: it must be asked again
PLACED: Final = 62  # 1: which processors are free decides who fits, and the client knows
BACKFILL_SEED: Final = 63
# a ceiling on utilisation, and postponed jobs
RESERVE: Final = 64  # processors that only exempt jobs may use
EXEMPT: Final = 65  # from this width on
PASSED_OVER: Final = 66  # 1: a job that only the ceiling stops is passed over, and holds no reservation
POSTPONES: Final = 67  # 1: jobs with a deadline are put off
LEAD: Final = 68  # so long before they must start by their requests they join the queue [s]
IDLE: Final = 69  # all join it while fewer processors are in use
LOOKS: Final = 70  # when it is looked at whether few are in use: sum of BEFORE and AFTER a pass
PUT_OFF_START: Final = 71  # 1: jobs put off may be backfilled
N_POSTPONED: Final = 72
SEARCHED: Final = 73  # which list the pass searches for backfills
# a site's rules
RULES: Final = 74  # 1: the site has rules, and `jobs` their columns
TICK: Final = 75  # seconds between two ticks of the score
TICKING: Final = 76  # at which ticks a pass is due, see below
N_HELD: Final = 77  # waiting jobs that are held
N_SETS: Final = 78  # node sets
HEIRS_SHARE: Final = 79  # bits of a float: share of its parent's score that a child starts with
STUCK: Final = 80  # 1: the children of a failed job stay held
SCORED: Final = 81  # 1: the ticks of the score are looked at
BEHIND: Final = 82  # number of the queue for jobs of spent accounts, or -1
SETS_WAIT: Final = 83  # 1: in the last pass a job waited for its node set alone
# reservations and failures
DATED: Final = 84  # 1: processors may be reserved or fail, and only their numbers count
N_DATES: Final = 85  # dates ahead at which the reserved part grows, in the plan
LIMITED: Final = 86  # 1: the list LIMITS is kept
FRAGILE: Final = 87  # 1: running jobs may be stopped and start again
CELLS: Final = NODES + LISTS

# node sets: cells from that of the set on, behind CELLS
SET_LIMIT: Final = 0  # processors that its jobs may use at once
SET_USED: Final = 1
SET_PASS: Final = 2  # the last pass in which a job waited for it alone
SET_SHADOW: Final = 3  # when that job has its share
SET_EXTRA: Final = 4  # processors of the set free then beside it
SET_CELLS: Final = 5

# accounts: cells from that of the account on, behind the node sets
SPENT: Final = 0  # processor-seconds since its year began
GRANTED: Final = 1  # processor-seconds of a year
BLOCKS: Final = 2  # 1: once spent, its jobs are held
OVERBURNING: Final = 3  # 1: its capability jobs may spend as much again
NUMBER: Final = 4  # of its project
ACCOUNT_CELLS: Final = 5

# why a job is held
BY_USER: Final = 1
BY_PARENT: Final = 2  # it has not ended, or not long enough ago
BY_FAILURE: Final = 4  # of its parent
BY_ACCOUNT: Final = 8

# how a job ended
WELL: Final = 1
BADLY: Final = 2

# at which ticks a pass is due, while a job is in the queue
AT_NEW_HEADS: Final = 1
AT_NEW_ORDERS: Final = 2
AT_EVERY_TICK: Final = 3

# causes of an instant
BY_END: Final = 1
BY_SUBMISSION: Final = 2
BY_TIMER: Final = 4
ENDED_AT_ONCE: Final = 16  # not a cause: a job of length zero started and ended in the pass
CORRECTED: Final = 8  # not a cause: an estimate was corrected at this instant

# phases of an instant
AT_ADVANCE: Final = 0
AT_ENDS: Final = 1
AT_TIMERS: Final = 2
AT_SUBMISSIONS: Final = 3
AT_QUEUEING: Final = 4
AT_ORDER: Final = 5
AT_REORDER: Final = 6  # the client has given keys
AT_PASS: Final = 7
AT_BACKFILL: Final = 8

# why the engine stopped; 0 and more: estimates are asked, and this many rows of the log are written
PASS_IS_DUE: Final = -1
FINISHED: Final = -2
REACHED: Final = -3
GROW_LIVE: Final = -4
GROW_LOG: Final = -5
BAD_ESTIMATE: Final = -6
ASK_ORDER: Final = -7
ASK_GATE: Final = -8
ASK_PICK: Final = -9
ASK_TIMER: Final = -10
GROW_ANSWERS: Final = -11
ASK_WORLD: Final = -12
ASK_SHADOW: Final = -13

NOT_ANSWERED: Final = -(1 << 40)

# what a gate may answer
HELD: Final = 0
MAY_START: Final = 1
NO_PLACE: Final = 2  # enough processors are free, but not where the job could have them

# when a pass looks at utilisation to release the jobs put off
BEFORE: Final = 1
AFTER: Final = 2

# kinds of timers; a client's own kinds are larger
RECHECK: Final = 0
STEP: Final = -1  # the world moves on; nobody is woken
RELEASE: Final = -2  # a postponed job, by its slot, joins the queue
COMMAND: Final = -3  # users or operators do something to waiting jobs
RELEASE_CHILD: Final = -4  # the job of that row waits for its parent no more
CALENDAR: Final = -5  # so many processors more are reserved from now on
CHANGE: Final = -6  # nodes fail or are repaired: the client knows which

FIRST_COME: Final = 0  # the code of the order FCFS

# plan: rows
WHEN: Final = 0
SPACE: Final = 1
DATE: Final = 2  # dates at which the reserved part of the machine grows, and what room is left then
ROOM: Final = 3
PLAN_ROWS: Final = 4

# rewards of the knapsack
CAPABILITY: Final = 0
CAPACITY: Final = 1
COUNT_BITS: Final = 56  # a set of jobs is so many bits, its size stands above them

# depths
GREEDY: Final = -1  # no reservation, and nobody waits for the head
NO_BACKFILL: Final = 0
ALL: Final = NEVER

# how a job started
READY: Final = 0
BY_RESERVATION: Final = 1
BACKFILLED: Final = 2

# roles of estimates: rows of `seconds`
FOR_RUNNING: Final = 0
FOR_CANDIDATES: Final = 1
FOR_ORDER: Final = 2
N_ROLES: Final = 3

# an outlook's answers: one row a job
A_ROW: Final = 0
A_ROLE: Final = 1  # columns A_ROLE + role: estimate [s]
A_LADDER: Final = 4  # columns A_LADDER + 2 i, + 1: from this elapsed time on [s], the running estimate is that [s]
