"""Steps of the kernels that Python takes by itself, when it answers a pause."""

import schedsim._kernels_calendar as calendar
import schedsim._kernels_holds as holds
import schedsim._kernels_ordered as ordered
import schedsim._kernels_score as score
from predictors.data.compiled import door

insert = door(ordered.insert)
clear = door(ordered.clear)
clears = door(calendar.clears)
line_up = door(holds.line_up)
step_out = door(holds.step_out)
hold = door(holds.hold)
lift = door(holds.lift)
kin_of = door(holds.kin_of)
next_tick = door(score.next_tick)
