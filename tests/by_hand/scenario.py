"""Twelve jobs on ten processors, worked by hand under every rule of backfilling: who starts when, and why.

Jobs 1 and 2 leave 2 processors free until 80. By then 3 to 9 wait; 10 and 11 come at 120, 12 at 130. "Shadow 110, 2
extra" is said of the job just named as head. Sums like 1+50 are now + estimate. A line reads `second: jobs | reason`.
"""

from tests.oracle.easy import Job

PROCS = 10

#    job_id, submit, procs, requested, run_time, user
SCENARIO = [
    Job(1, 0, 4, 80, 80, 1),
    Job(2, 0, 4, 80, 80, 2),
    Job(3, 1, 7, 30, 20, 2),
    Job(4, 1, 2, 50, 10, 1),
    Job(5, 1, 7, 60, 30, 2),
    Job(6, 1, 4, 100, 20, 2),
    Job(7, 1, 3, 30, 10, 2),
    Job(8, 1, 1, 120, 120, 1),
    Job(9, 20, 8, 50, 10, 2),
    Job(10, 120, 2, 120, 50, 2),
    Job(11, 120, 1, 80, 30, 2),
    Job(12, 130, 2, 120, 10, 1),
]

# What a careless predictor says: too short for 1, 2, 6 and 8.
GUESSES = [60, 50, 30, 10, 60, 10, 10, 20, 10, 60, 80, 120]

# Plain orders, one with keys that stay and one with keys that move: the front of the queue starts while it fits.
# Requested times are the estimates.
ORDERED = {
    "fcfs": """order 3 4 5 6 7 8 9 10 11 12
          0: 1 2      | both fit, 2 left; at 1 the head 3 needs 7
         80: 3 4      | 7 + 2 of 10; 5 needs 7
        100: 5        | 3 ends; 3 left, 6 needs 4
        130: 6 7 8    | 5 ends; 2 left, 9 needs 8
        150: 9        | 6 ends, 7 ended at 140: 9 free; 10 needs 2
        160: 10 11 12 | 9 ends
        """,
    "sjf": """requests: 3 30, 7 30, 4 50, 9 50 (later), 5 60, 11 80, 6 100, 8 120, 10 120, 12 120
          0: 1 2       | fit; at 1 the head 3 needs 7
         80: 3 7       | all 10
         90: 4         | 7 ends: 3 free; then 9 needs 8
        100: 9         | 3 and 4 end
        110: 5         | 9 ends; then 6 needs 4 of 3
        120: 11        | submitted, shorter than 6
        140: 6 8 10 12 | 5 ends: 9 free, 4 + 1 + 2 + 2
        """,
    "wfp3": """(wait / requested)^3 x processors, largest first; at 1 all are 0: 3 is the head and needs 7
          0: 1 2        | fit
         80: 3 7        | 127.8 and 54.8; before 5 16.0, 9 13.8, 4 7.9, 6 2.0, 8 0.3.; at 90 5 (22.8) leads
        100: 9          | 3 ends; 9 has overtaken 5: 32.8 to 31.4; then 5 needs 7 of 2
        110: 5 4        | 42.0, 20.7, then 6 (5.2) needs 4 of 1
        140: 6 8 10 11 12 | 5 ends, 4 ended at 120: 10 free, 4 + 1 + 1 + 2 + 2
        """,
}

# The same orders with EASY backfilling.
BACKFILLED = {
    "easy": """
          0: 1 2 | fit
          1: 4   | head 3, shadow 80, 3 extra: 1+50 is in time
         11: 8   | 4 ends; head 3 as before: 8 is late but 1 of 3 extra
         80: 3   | 9 free; head 5, shadow 110, 2 extra: nothing waiting fits into 2
        100: 5   | 3 ends early; head 6, shadow 160, 6 extra: 7 does not fit into 2
        120: 10  | head 6: late, 2 of 6 extra; 0 free
        130: 6 7 | 5 ends: 4 + 3 of 7; head 9
        131: 11  | 8 ends: 1 free; head 9, shadow 230 (6), 0 extra: 131+80 is in time
        161: 9   | 11 ends: 8 free. 12 was late (140+120, shadow 230; 150+120, shadow 211) and nothing extra
        170: 12  | 10 ends: 2 free, it is the head now
        """,
    "wfp3-easy": """
          0: 1 2  | fit
          1: 4    | all keys 0: head 3, shadow 80: 1+50 is in time
         11: 8    | 4 ends; head 3: 7, 5, 6 do not fit, 8 is 1 of 3 extra
         80: 3    | 9 free; head 7 (54.8), shadow 110: nothing fits into 2
        100: 7    | 3 ends; 107.8; head 9 (32.8), shadow 130, 1 extra: 6 is late and 4 wide
        110: 9    | 7 ends: 46.7 before 5 (42.0)
        120: 5 10 | 9 ends: 9 free, 5; head 6 (6.7), shadow 180, 6 extra: 10 and 11 have 0, 10 first: 2 of 2 free
        131: 11   | 8 ends: 1 free; head 6, 1 of 4 extra
        150: 6 12 | 5 ends: 7 free
        """,
    "easy-sjbf": """
          0: 1 2 | fit
          1: 4   | head 3, shadow 80: 7 is shorter but does not fit into 2
         11: 8   | 4 ends: 1 of 3 extra
         80: 3   | head 5: nothing fits into 2
        100: 5   | 3 ends; head 6: nothing fits into 2
        120: 11  | head 6, shadow 160, 6 extra: 11 is shorter than 10; then 10 does not fit into 1
        130: 6 7 | 5 ends: 4 + 3 of 8; head 9, shadow 230, 2 extra: 10 and 12 do not fit into 1
        131: 10  | 8 ends: 2 free; late, 2 of 2 extra; as long as 12, submitted before
        150: 9   | 6 and 11 end, 7 ended at 140: 8 free. At 140 12 was late, 0 extra
        160: 12  | 9 ends
        """,
}

# More than one reservation, and the greedy rules.
RESERVED = {
    "hybrid-2": """
          0: 1 2 | fit
          1: 4   | 3 reserved at 80, 4 fits before it, then 5 reserved at 110
         11: 8   | 4 ends: beside 3 (80-110) and 5 (110-170) 3 are left
         80: 3   | 5 at 110, 6 at 170: nothing else fits into 2
        100: 5   | 3 ends; 6 at 160, 7 at 131 (when 8 ends)
        130: 6 7 10 | 5 ends: 4 + 3 of 9; 9 at 230 leaves 2 beside it: 10 fits. At 120 it would have delayed 7
        131: 11  | 8 ends: 131+80 ends before 9 at 230
        161: 9   | 11 ends: 8 free. 12 would have delayed 9 at 140 (230) and 150 (211)
        171: 12  | 9 ends (10 runs until 180)
        """,
    "conservative-replan": """
          0: 1 2  | fit
          1: 4    | plan: 3 at 80, 4 now, 5 at 110, 6 at 170, 7 at 80, 8 at 110
         80: 3 7  | as planned. At 11 8 could not start: 3 and 7 fill 80-110
         90: 8    | 7 ends early: 3 free now and beside 5 (110-170)
        100: 5    | 3 ends early: 6 at 160, 9 at 260
        120: 10   | 2 free now, 5 beside 6 (160-260)
        130: 6 11 | 5 ends early: 6 now, 9 at 230 (10 until 240): 11 ends by 210; 12 would need 2 at 230: at 240
        170: 9    | 10 ends, 6 ended at 150, 11 at 160: 9 free. 12 had to wait behind 9 (210)
        180: 12   | 9 ends
        """,
    "conservative-compress": """
          0: 1 2  | fit
          1: 4    | reserved: 3 at 80, 4 now, 5 at 110, 6 at 170, 7 at 80, 8 at 110; at 20: 9 at 270
         80: 3 7  | as reserved; at 11 nothing could move
         90: 8    | 7 ends: 5 and 6 stay, 8 moves from 110 to now
        100: 5    | 3 ends: 5 moves to now, 6 to 160, 9 to 260
        120: 10   | reserved now, beside 6 (160-260); 11 gets 160
        130: 6 11 12 | 5 ends: 6 moves to now; 9 to 240, after 11 (160-240); then 11 to now, and 12 fits before 9
        170: 9    | 10 ends: 9 free. Moved to 230 (12 ends, 140), 210 (6 ends, 150)
        """,
    "binpacking": """
          0: 1 2 | fit
          1: 4   | the widest that fits into 2
         11: 8   | 4 ends; 1 of 2
         80: 9   | 8 of 9
         90: 3   | 9 ends: 7 of 9, as wide as 5, before it by job id
        110: 5   | 3 ends: 7 of 9
        120: 10  | 2 of 2, wider than 11
        131: 11  | 8 ends: 1 free
        140: 6 7 | 5 ends: 4 + 3 of 7
        150: 12  | 7 ends
        """,
    "knapsack": """worth: wait / longest wait + processors / 5 (times 1/3); what fits together and is worth most
          0: 1 2 | fit
          1: 4   | no one has waited: 2 processors beat 1
         11: 8   | 4 ends: all else is too wide
         80: 6 7 | 9 free: 1.8 + 1.6 = 3.4, more than 3 or 5 (2.4) or 9 (0.76 + 1.6)
        100: 9   | 6 ends, 7 ended at 90: 9 free; 80/99 + 1.6 = 2.41 beats 2.4 for 3 or 5
        110: 3   | 9 ends: 3 and 5 are worth 2.4 each, 3 is first
        120: 10  | 2 free: 0.4 beats 0.2 for 11
        130: 5   | 3 ends: 7 free; 2.4 beats 11 and 12 together
        131: 11  | 8 ends: 1 free
        160: 12  | 5 ends
        """,
    "knapsack-capacity": """worth: 1 / requested
          0: 1 2  | fit
          1: 4    | 1/50 beats 1/120 for 8
         11: 8    | 4 ends
         80: 6 7  | 9 free: 1/100 + 1/30 beats 1/30 for 3 alone, 1/50 for 9
        100: 3    | 6 ends, 7 ended at 90: 1/30 beats 1/50 for 9
        120: 9 11 | 3 ends: 9 free; 1/50 + 1/80 beats 1/60 + 1/80 for 5 and 11
        130: 5    | 9 ends: 8 free; 1/60, as much as 10 and 12 together; the first in the queue is taken
        131: 10   | 8 ends: 2 free; as much as 12, first in the queue
        160: 12   | 5 ends
        """,
}

# Other estimates. Tsafrir's for 10 and 11 are (80 + 20) / 2 = 50, of 2 and 3; for 12 (10 + 80) / 2 = 45, of 4 and 1.
ESTIMATED = {
    ("easy", "clairvoyant", "requested"): """
          0: 1 2 | fit
          1: 4   | head 3, shadow 80: in time
         11: 8   | 1 of 3 extra
         80: 3   | head 5, shadow 100: nothing fits into 2
        100: 5   | head 6, shadow 130, 5 extra: nothing fits into 2
        120: 10  | late (170), 2 of 5 extra
        130: 6 7 | 5 ends; head 9
        140: 12  | 7 ends; head 9, shadow 150, 0 extra: 11 is late (170), 12 just in time (150)
        150: 9   | 6 and 12 end
        160: 11  | 9 ends
        """,
    ("easy-sjbf", "clairvoyant", "requested"): """
          0: 1 2 | fit
          1: 4   | head 3, shadow 80: in time; as short as 7, before it by job id
         11: 8   | 1 of 3 extra
         80: 3   | head 5: nothing fits into 2
        100: 5   | head 6: nothing fits into 2
        120: 11  | head 6, shadow 130, 5 extra: shorter than 10, late (150), 1 of 5 extra; then 10 does not fit into 1
        130: 6 7 | 5 ends: 4 + 3 of 8; 12 does not fit into 1
        131: 12  | 8 ends: 2 free; head 9, shadow 150: the shortest, in time (141)
        140: 10  | 7 ends: 3 free; head 9, shadow 150, 2 extra: late (190), 2 of 2 extra
        150: 9   | 6 and 11 end
        """,
    ("easy", "guesses", "requested"): """
          0: 1 2   | fit; expected to end at 60 and 50
          1: 4     | head 3, shadow 60: in time (11)
         11: 8     | 4 ends; in time (31)
         80: 3     | 1 and 2 end. 8 has outlived its guess: now until 131. Head 5: nothing fits into 2
        100: 5     | head 6, shadow 160, 6 extra
        120: 10    | late (180), 2 of 6 extra
        130: 6 7   | both expected to end at 140. At 131 head 9, shadow 140, 0 extra: 11 is late
        140: 11 12 | 7 ends, 6 does not: now until 230; head 9, shadow 230, 2 extra: 11 in time (220), 12 2 of 2 extra
        170: 9     | 10 and 11 end; 6 and 12 ended at 150, 7 free were too few
        """,
    ("easy", "guesses", "incremental"): """
          0: 1 2  | fit
          1: 4    | as above
         11: 8    | as above
         80: 3    | 8 has outlived 20 s: one minute more, until 91
        100: 5    | 8 has outlived 80 s: the next step lies beyond its request: until 131
        120: 10   | as above
        130: 6 7  | as above
        140: 11   | 6 has outlived 10 s: now until 200; head 9, shadow 200, 2 extra: 11 late (220), 1 of 2; 12 too wide
        170: 9 12 | 10 and 11 end: 8 + 2. At 150 head 9, shadow 180, 1 extra: 12 was late and 2 wide
        """,
    ("easy", "guesses", "doubling"): """
          0: 1 2   | fit
          1: 4     | as above
         11: 8     | as above
         80: 3     | 8 has outlived 20 s and would 40: until 91
        100: 5     | 8 has outlived 80 s: 160 is more than its request: until 131
        120: 10    | as above
        130: 6 7   | as above
        140:       | 6 has outlived 10 s: 20, until 150; head 9, shadow 150, 0 extra: 11 and 12 are late
        150: 9     | 6 ends: 8 free
        160: 11 12 | 9 ends
        """,
    ("easy+promise", "guesses", "requested"): """
          0: 1 2  | fit
          1: 4    | head 3, promised 80: in time by its request too (51)
         11: 8    | by its request late (131), but fits beside 3 at 80
         80: 3    | head 5, promised 110
        100: 5    | head 6, promised 160
        120: 10   | late by both; at 160 nothing else is left by requests: fits beside 6
        130: 6 7  | head 9, promised 230, when 6 ends by its request
        140: 11   | in time by its request (220). 12: 10 may run until 240, so 9 and 12 do not fit together at 230
        170: 9 12 | 10 and 11 end: 8 + 2
        """,
    ("careful", "guesses", "requested"): """EASY-SJBF; a promise that lies a day later binds nobody here
          0: 1 2   | fit
          1: 4     | head 3, shadow 60: 6 and 7 are as short but do not fit into 2; in time (11)
         11: 8     | 4 ends; 6 and 7 do not fit; in time (31)
         80: 3     | 8 now until 131. Head 5: nothing fits into 2
        100: 5     | head 6, shadow 160, 6 extra: 7 and 9 do not fit into 2
        120: 10    | 60, before 11 with 80; late, 2 of 6 extra
        130: 6 7   | 5 ends: 4 + 3 of 7
        140: 11 12 | 7 ends, 6 now until 230; head 9, shadow 230, 2 extra: 11 in time (220), 12 2 of 2 extra
        170: 9     | 10 and 11 end
        """,
    ("hybrid-2+promise", "guesses", "requested"): """
          0: 1 2  | fit
          1: 4    | 3 reserved at 60, promised 80; 4 ends by 51 at the latest; 5 reserved at 90
         11: 8    | ends by 31 as guessed, and fits beside 3 at 80
         80: 3    | 5 at 110, 6 at 170: nothing else fits into 2
        100: 5    | 6 at 160, 7 at 131
        130: 6 7 10 | 5 ends: 4 + 3 of 9; 9 at 140, promised 230: 10 fits beside it at both (at 120: not beside 7)
        140: 11   | 7 ends; 6 now until 230, 9 at 230: 11 is in time by its request. 12 fits beside 9 as guessed, but
                  |    not by requests: 10 may run until 250
        170: 9    | 11 ends: 8 free
        180: 12   | 9 and 10 end
        """,
    ("conservative-compress", "guesses", "requested"): """
          0: 1 2   | fit; expected to end at 60 and 50
          1: 4     | reserved: 3 at 60, 5 at 90, 6 at 50, 7 at 60, 8 at 11
         11: 8     | as reserved; at 20: 9 at 150
         80: 3     | due since 60. 5, 6, 7 have become impossible, 9 not: 5 to 160, after 9; 6 and 7 to 110; 9 to 120
        100: 6 7   | 3 ends: 5 to 130, after 9; 6 and 7 to now; 9 to 110
        120: 5 10  | 6 ends (corrected at 110: 5 to 200, 9 to 260): 5 to now, 9 to 180; 10 beside 5; 11 at 131
        131: 11    | 8 ends, as reserved; 12 at 190
        161: 9     | 11 ends: 8 free; 5 ended at 150
        170: 12    | 10 ends
        """,
    ("easy-sjbf", "tsafrir", "requested"): """
          0: 1 2 | fit
          1: 4   | nobody has ended yet: requests; head 3, shadow 80: in time
         11: 8   | 1 of 3 extra
         80: 3   | head 5: nothing fits into 2
        100: 5   | head 6, shadow 160, 6 extra
        120: 10  | 9, 10 and 11 are equal at 50: 9 does not fit, 10 is next: late (170), 2 of 6 extra
        130: 6 7 | 5 ends; head 9
        131: 11  | 8 ends: 1 free; head 9, shadow 230: 12 (45) does not fit, 11 in time (181)
        140: 12  | 7 ends: 3 free; in time (185)
        161: 9   | 11 ends, 6 and 12 ended at 150: 8 free
        """,
}


def starts_by_hand(trace):
    """Start of each job of the scenario, read from its trace.

    >>> starts_by_hand(ORDERED["fcfs"])
    [0, 0, 80, 80, 100, 130, 130, 130, 150, 160, 160, 160]
    """
    start = {}
    for line in trace.splitlines()[1:]:
        when, colon, who = line.split("|")[0].partition(":")
        if colon:
            start |= {int(job_id): int(when) for job_id in who.split()}
    return [start[job.job_id] for job in SCENARIO]
