-- Soft limits (TimeMin) at submission, from the table that `jobcast slurm write --table` keeps: a look into memory, no
-- network, no other process. It fails open: whatever is wrong, the job is as its user wrote it.
-- docs/how-to/slurm.md says how to install it. Set these two:
local TABLE = "/var/lib/jobcast/soft-limits"
local CLUSTER = ""      -- ClusterName of slurm.conf; a table of another cluster is none

local EVERY = 10        -- seconds between looks at the file
local MOST = 16777216   -- bytes; a longer file is no table of ours

local rows, head, read_at = {}, nil, nil

-- Returns a table's rows by key and its head; nil where it is not ours, not whole, or does not hold now.
local function read_table(path, cluster, now)
   local file = io.open(path, "rb")
   if not file then return nil end
   local size = file:seek("end")
   file:seek("set")
   local text = size and size <= MOST and file:read("*a") or nil
   file:close()
   if not text then return nil end
   local first = text:match("^[^\n]*\n")
   if not first then return nil end
   local name, mode, written, expires, reservation, margin, count =
      first:match("^jobcast%-table 1 (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)\n$")
   if not name or name ~= cluster then return nil end
   written, expires, count = tonumber(written), tonumber(expires), tonumber(count)
   if now < written - 300 or now > expires then return nil end
   local found, n, last = {}, 0, nil
   for line in text:sub(#first + 1):gmatch("([^\n]*)\n") do
      if last then
         local key, minutes, seconds, ended, model = last:match("^([^\t]*\t[^\t]*\t[^\t]*\t%d+\t[^\t]*)\t(%d+)\t(%d+)\t(%d+)\t([^\t]*)$")
         if not key then return nil end
         found[key] = { minutes = tonumber(minutes), seconds = tonumber(seconds), ended = tonumber(ended), model = model }
         n = n + 1
      end
      last = line
   end
   if last ~= "end " .. count or n ~= count or text:sub(-1) ~= "\n" then return nil end
   return found, { sets = mode == "set", expires = expires, reservation = tonumber(reservation), margin = tonumber(margin) }
end

local function find(user, partition, procs, limit, name)
   return rows[table.concat({ user, partition, procs, limit, name }, "\t")]
      or rows[table.concat({ user, "*", "*", limit, "*" }, "\t")]
end

local function is_set(number)
   return type(number) == "number" and number > 0 and number < (slurm.NO_VAL or 4294967294) - 1
end

local function default_partition(partitions)
   for name, one in pairs(partitions or {}) do
      if one.flag_default == 1 or one.flag_default == true then return name end
   end
   return ""
end

-- Sets a soft limit if the table has one for the job, and nothing speaks against it; returns what was done, in a word.
-- A deadline cannot be seen from here: `jobcast slurm write` clears such jobs at its next look.
local function soft_limit(job, partitions)
   local now = os.time()
   if not read_at or now - read_at >= EVERY or now < read_at then
      read_at = now
      rows, head = read_table(TABLE, CLUSTER, now)
   end
   if not rows or not head or now > head.expires then return "no table" end
   if not head.sets then return "for advice only" end
   if is_set(job.time_min) then return "the user's own" end
   if not is_set(job.time_limit) then return "no limit" end
   if job.het_job_offset ~= nil and job.het_job_offset ~= (slurm.NO_VAL or 4294967294) then return "heterogeneous" end
   if job.array_inx ~= nil and job.array_inx ~= "" then return "an array" end
   if job.reservation ~= nil and job.reservation ~= "" then return "in a reservation" end
   if head.reservation > 0 and now + 60 * job.time_limit + head.margin >= head.reservation then
      return "a reservation ahead"
   end
   if job.admin_comment ~= nil and job.admin_comment ~= "" then return "a comment of another plug-in" end
   local partition = job.partition
   if partition == nil or partition == "" then partition = default_partition(partitions) end
   local procs = is_set(job.min_cpus) and job.min_cpus or 1
   local row = find(job.user_name or "", partition, procs, job.time_limit, job.name or "")
   if not row then return "unknown" end
   if row.minutes < 1 or row.minutes >= job.time_limit then return "no gain" end
   job.time_min = row.minutes
   job.admin_comment = string.format("jobcast soft=%dm asked=%dm model=%s", row.minutes, job.time_limit, row.model)
   return "set"
end

function slurm_job_submit(job, partitions, uid)
   local done, what = pcall(soft_limit, job, partitions)
   pcall(slurm.log_debug, "jobcast: %s", tostring(what))
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
