"""Where each fact stands in the few arrays that the history's compiled step works on.

`jobs` (n_slots, JOB_COLUMNS) int64: one record a job. `users` (n_users, USER_COLUMNS) int64: what is known of each
user. `clock` int64: the present second, the rules and list heads (CLOCK_FIELDS), then the facts that make a row, then
from field CALENDAR on the time zone's pairs (from Unix time [s], offset to UTC [s]). `facts` (N_FACTS,) float64: all
that is known of one submission. Few arrays, because each costs a call some 0.15 µs. Links are slots; `NONE` ends a
list. A value below 0 in a job's record is unknown.

Numba keeps compiled code by the file that it stands in: after an edit here delete `__pycache__/*.nb*`.
"""

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
STATUS: Final = 9
"""Read when the job ends, never before."""
STATE: Final = 10
START: Final = 11
END: Final = 12
OLDER: Final = 13
"""The same user's running job that started before this one."""
NEWER: Final = 14
NEXT: Final = 15
"""Next job in the list of deferred ends, or of free slots."""
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
LAST_EVENT: Final = 14
"""Number of the newest event of one of the user's jobs; 0 before the first."""
USER_COLUMNS: Final = 15
OF_ENDED_JOBS: Final = (ENDED_COUNT, LAST_RUN, SECOND_RUN, LAST_STATUS, SECOND_STATUS, LAST_END, RUN_SUM, LAST_EVENT)
"""What remains of a user when no job is queued or running."""

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
CLOCK_FIELDS: Final = 12

# --- families of features, as bits
JOB_FAMILY: Final = 1
CALENDAR_FAMILY: Final = 2
ENDED_FAMILY: Final = 4
RUNNING_FAMILY: Final = 8

# --- facts: position of each feature
F_PROCS: Final = 0
F_REQUESTED: Final = 1
F_USER: Final = 2
F_GROUP: Final = 3
F_EXECUTABLE: Final = 4
F_QUEUE: Final = 5
F_PARTITION: Final = 6
F_WEEKDAY: Final = 7
F_HOUR: Final = 8
F_LAST_TWO_MEAN: Final = 9
F_LAST_RUN: Final = 10
F_SECOND_RUN: Final = 11
F_THINK_TIME: Final = 12
F_LAST_STATUS: Final = 13
F_SECOND_STATUS: Final = 14
F_ENDED_COUNT: Final = 15
F_ENDED_MEAN: Final = 16
F_LONGEST_RUNNING: Final = 17
F_RUNNING_SUM: Final = 18
F_RUNNING_COUNT: Final = 19
F_RUNNING_MEAN: Final = 20
F_PROCS_HELD: Final = 21
F_PENDING_COUNT: Final = 22
N_FACTS: Final = 23
