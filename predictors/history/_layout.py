"""Layout of the arrays that the history's compiled step works on.

`jobs` (n_slots, JOB_COLUMNS) int64: one record a job. `users` (n_users, USER_COLUMNS) int64: what is known of each
user. Where features of groups are asked for, a job's record goes on with its slot in each further group of KEYS, and
`users` holds these groups as well, all with GROUP_COLUMNS; fields marked float hold a float64's bits. `clock` int64:
the present second, the rules and list heads (CLOCK_FIELDS), then the facts that make a row, then from field CALENDAR on
the time zone's pairs (from Unix time [s], offset to UTC [s]). `recent` (n_users, RECENT_COLUMNS or CODED_RUN_COLUMNS)
float64: the newest runs of each user, empty where no feature of single runs is asked for. `facts` (N_FACTS,) float64:
all that is known of one submission. Few arrays, because each costs a call some 0.15 µs. Links are slots; `NONE` ends a
list. A value below 0 in a job's record is unknown.
"""

import math
from typing import Final

NONE: Final = -1

# --- jobs: what the submission tells …
SUBMIT: Final = 0
PROCS: Final = 1
REQUESTED: Final = 2
USER: Final = 3
GROUP: Final = 4
EXECUTABLE: Final = 5
QUEUE: Final = 6
PARTITION: Final = 7
USER_SLOT: Final = 8
"""Row of the user in `users`; `NONE` for an unknown user and, in questions, for one without history."""
# … and what happens to the job afterwards
STATUS: Final = 9  # read when the job ends, never before
STATE: Final = 10
START: Final = 11
END: Final = 12
OLDER: Final = 13  # the same user's running job that started before this one
NEWER: Final = 14
NEXT: Final = 15  # next job in the list of deferred ends, or of free slots
JOB_COLUMNS: Final = 16

# --- a job's state
NEW: Final = 0
PENDING: Final = 1
RUNNING: Final = 2
OVER: Final = 3

# --- users
ENDED_COUNT: Final = 0
LAST_RUN: Final = 1
SECOND_RUN: Final = 2
LAST_STATUS: Final = 3
SECOND_STATUS: Final = 4
LAST_END: Final = 5
RUN_SUM: Final = 6
PENDING_COUNT: Final = 7
RUNNING_COUNT: Final = 8
START_SUM: Final = 9
PROCS_HELD: Final = 10
OLDEST: Final = 11
NEWEST: Final = 12
CODE: Final = 13
LAST_EVENT: Final = 14  # number of the newest event of one of the user's jobs; 0 before the first
KIND: Final = 15  # number of the record's kind among KEYS; 0 is a user
USER_COLUMNS: Final = 16
OF_ENDED_JOBS: Final = (ENDED_COUNT, LAST_RUN, SECOND_RUN, LAST_STATUS, SECOND_STATUS, LAST_END, RUN_SUM, LAST_EVENT)
"""Fields of a user that do not depend on queued or running jobs."""

# --- further columns of a job's record, behind its slots in all kinds of groups
STEMS: Final = 25
"""Code of the stems of all names of the job and of its processors; see `predictors.history.names.with_procs`."""
STEM: Final = 26
SIGNATURE: Final = 27
SIGNATURE_2: Final = 28
SOFT: Final = 29  # run time that the site's own system predicted [s]
WIDE_JOB_COLUMNS: Final = 30

# --- groups of jobs that share a key; PENDING_COUNT of one that is no user counts its jobs queued or running
KEYS: Final = (
    (USER,),
    (USER, PROCS),
    (USER, REQUESTED),
    (USER, EXECUTABLE),
    (USER, PROCS, REQUESTED),
    (PROCS, REQUESTED),
    (GROUP,),
    (QUEUE,),
    (USER, STEMS, REQUESTED),
    (USER, STEM),
)
"""Columns of `jobs` that make the key of each kind of group; a job that lacks one of them is in no such group."""
N_KINDS: Final = 8  # kinds of groups that need no names; the others are kept only where a feature reads names
BACK_OFF: Final = (4, 2, 1, 0, 5)
"""Kinds from the most specific to the last resort: the first that has history is used for a job."""
NAMED_BACK_OFF: Final = (8, 4, 2, 9, 1, 0, 5)  # the same where names count
CODE_2: Final = 16
CODE_3: Final = 17
RUN_WEIGHTED: Final = 18  # float: weighted mean of run times [s]
RATIO_WEIGHTED: Final = 19  # float: weighted mean of run time / requested time
RATIO_COUNT: Final = 20
SUBMIT_COUNT: Final = 21
LAST_SUBMIT: Final = 22
LAST_PROCS: Final = 23
LAST_REQUESTED: Final = 24
LAST_EXECUTABLE: Final = 25
BURST: Final = 26
RING: Final = 27
RING_SIZE: Final = 10  # newest run times kept
RECENT: Final = RING + RING_SIZE
"""Row of a user in `recent`; `NONE` for other groups, and where no feature of single runs is asked for."""
GROUP_COLUMNS: Final = RECENT + 1
JOB_AND_GROUP_COLUMNS: Final = JOB_COLUMNS + N_KINDS - 1
SLOTS_END: Final = JOB_COLUMNS + len(KEYS) - 1  # end of the slots in a record that has all of them
LEAST_WEIGHT: Final = 0.1  # of the newest value in a weighted mean; the first ten count the same
BURST_GAP: Final = 60  # longest pause between two submissions of one burst [s]

# --- the newest runs of a user: blocks of MEMORY run times [s], logarithms of requests [s] and of processors, ends [s]
MEMORY: Final = 64  # newest runs of a user that kernel means look at
R_RUN: Final = 0
R_LOG_REQUEST: Final = MEMORY
R_LOG_PROCS: Final = 2 * MEMORY
R_END: Final = 3 * MEMORY
RECENT_COLUMNS: Final = 4 * MEMORY
# where features of production are asked for, the codes of these runs too; 0: none, 1: unknown, else the code + 2
R_REQUEST: Final = 4 * MEMORY
R_PROCS: Final = 5 * MEMORY
R_QUEUE: Final = 6 * MEMORY
R_PARTITION: Final = 7 * MEMORY
CODED_RUN_COLUMNS: Final = 8 * MEMORY
RATIO_RUNS: Final = 15  # newest runs of a user that the worst ratio looks at
ALIKE_AGE: Final = 90 * 86400  # longest time since the end of a run that counts as alike [s]
PLACE_RUNS: Final = 10  # newest runs of a user in one partition that their mean is of
# where the nearest by text are asked for, the two words of each run's signature as well
R_SIGNATURE: Final = 8 * MEMORY
R_SIGNATURE_2: Final = 9 * MEMORY
SIGNED_RUN_COLUMNS: Final = 10 * MEMORY
NEIGHBOURS: Final = 5
AMONG: Final = 50  # the nearest so many of the newest so many runs make `near_text`
SIGNATURE_BITS: Final = 52
"""Of a word; the next bit is set in words of vectors, so that these are not compared with words of names."""
BITS_APART: Final = 26.0
NEAR_REQUEST: Final = 0.1
NEAR_PROCS: Final = 0.5
"""How many different bits of a signature, how much of ln request and of ln processors count as a distance of 1."""
KERNELS: Final = (
    (0.1, 0.5, 10.0, math.inf),
    (0.3, 1.0, 10.0, math.inf),
    (0.1, 0.5, 30.0, 1.0),
)
"""Of each kernel mean: how much of ln request, of ln processors, of runs since then and of ln(1 + hours since then)
lowers a run's weight to 1/e."""

# --- clock
NOW: Final = 0
EPOCH: Final = 1
HAS_EPOCH: Final = 2
SAME_SECOND: Final = 3
LEAST_ENDED: Final = 4
FAMILIES: Final = 5
DEFERRED_FIRST: Final = 6
DEFERRED_LAST: Final = 7
FREE: Final = 8
LATE_EVENTS: Final = 9
EVENTS: Final = 10
CALENDAR: Final = 11
MACHINE_PENDING: Final = 12
MACHINE_PENDING_PROCS: Final = 13
MACHINE_RUNNING: Final = 14
MACHINE_RUNNING_PROCS: Final = 15
MACHINE_PROCS: Final = 16  # processors of the machine; 0: not known
CLOCK_FIELDS: Final = 17

# --- families of features, as bits
JOB_FAMILY: Final = 1
CALENDAR_FAMILY: Final = 2
ENDED_FAMILY: Final = 4
RUNNING_FAMILY: Final = 8
SUBMISSIONS_FAMILY: Final = 16
MACHINE_FAMILY: Final = 32
GROUPS_FAMILY: Final = 64
SIMILAR_FAMILY: Final = 128
KERNEL_FAMILY: Final = 256
NAMED_FAMILY: Final = 512
TEXT_FAMILY: Final = 1024
LOGGED_FAMILY: Final = 2048
PRODUCTION_FAMILY: Final = 4096
WIDE_FAMILIES: Final = NAMED_FAMILY | TEXT_FAMILY | LOGGED_FAMILY
"""Those that need the further columns of a job's record."""
RUN_FAMILIES: Final = KERNEL_FAMILY | PRODUCTION_FAMILY
GROUP_FAMILIES: Final = SUBMISSIONS_FAMILY | GROUPS_FAMILY | SIMILAR_FAMILY | RUN_FAMILIES | WIDE_FAMILIES
"""Those that need records of groups."""

# --- facts: position of each feature
(
    F_PROCS, F_REQUESTED, F_USER, F_GROUP, F_EXECUTABLE, F_QUEUE, F_PARTITION, F_WEEKDAY, F_HOUR,
    F_LAST_TWO_MEAN, F_LAST_RUN, F_SECOND_RUN, F_THINK_TIME, F_LAST_STATUS, F_SECOND_STATUS, F_ENDED_COUNT,
    F_ENDED_MEAN, F_LONGEST_RUNNING, F_RUNNING_SUM, F_RUNNING_COUNT, F_RUNNING_MEAN, F_PROCS_HELD,
    F_PENDING_COUNT, F_SINCE_SUBMIT, F_BURST, F_SAME_PROCS, F_SAME_REQUESTED, F_SAME_EXECUTABLE,
    F_MACHINE_PENDING, F_MACHINE_PENDING_PROCS, F_MACHINE_RUNNING, F_MACHINE_RUNNING_PROCS,
    F_MACHINE_FREE_PROCS,
) = range(33)  # fmt: skip
F_KERNEL: Final = F_MACHINE_FREE_PROCS + 1  # first of the kernel means, in the order of KERNELS
F_SIMILAR: Final = F_KERNEL + len(KERNELS)
"""First of the facts of the most specific group with history: those of any group, and then its rank in BACK_OFF."""
(
    OF_COUNT, OF_LAST, OF_WEIGHTED, OF_RATIO, OF_MEAN, OF_GEOMETRIC, OF_MIN, OF_LOWER, OF_MEDIAN, OF_UPPER,
    OF_MAX, OF_AGE,
) = range(12)  # fmt: skip
GROUP_FACTS: Final = OF_AGE + 1
F_SIMILAR_RANK: Final = F_SIMILAR + GROUP_FACTS
F_GROUPS: Final = F_SIMILAR_RANK + 1  # first of the facts of the first kind of group; GROUP_FACTS each
F_NAMED: Final = F_GROUPS + N_KINDS * GROUP_FACTS
"""First of the facts of the most specific group where names count, and then its rank in NAMED_BACK_OFF."""
F_NAMED_RANK: Final = F_NAMED + GROUP_FACTS
F_NEAR_TEXT: Final = F_NAMED_RANK + 1
F_SOFT: Final = F_NEAR_TEXT + 1
F_WORST_RATIO: Final = F_SOFT + 1
F_ALIKE_MEAN: Final = F_WORST_RATIO + 1
F_PLACE_MEAN: Final = F_WORST_RATIO + 2
N_FACTS: Final = F_PLACE_MEAN + 1
SCRATCH: Final = RING_SIZE  # room behind the facts to sort a ring in
