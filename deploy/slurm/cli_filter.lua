-- One line of advice after sbatch, from the table that `jobcast slurm … --table` keeps. It reads one local file, and is
-- silent on every failure. docs/how-to/slurm.md says how to install it: a cli_filter.lua that is broken makes every sbatch
-- fail, so put it in place whole. Set these two:
local TABLE = "/var/lib/jobcast/soft-limits"
local CLUSTER = ""      -- ClusterName of slurm.conf; a table of another cluster is none

local MOST = 16777216   -- bytes; a longer file is no table of ours
local FEWEST = 5        -- jobs that have ended, below which nothing is said
local OLD = 900         -- seconds after which an expected start is not said any more

local asked = nil

-- Returns the table's text; nil where it is not ours, not whole, or does not hold now.
local function table_text(now)
   local file = io.open(TABLE, "rb")
   if not file then return nil end
   local size = file:seek("end")
   file:seek("set")
   local text = size and size <= MOST and file:read("*a") or nil
   file:close()
   if not text then return nil end
   local cluster, written, expires, count =
      text:match("^jobcast%-table 1 (%S+) %S+ (%d+) (%d+) %d+ %d+ (%d+)\n")
   if cluster ~= CLUSTER or now < tonumber(written) - 300 or now > tonumber(expires) then return nil end
   local trailer = "\nend " .. count .. "\n"
   return text:sub(-#trailer) == trailer and text or nil
end

-- Returns P90 of the run times of jobs like this one, and how many have ended; nil where there is no row.
local function row_of(text, user, partition, procs, limit, name)
   local exact = "\n" .. table.concat({ user, partition, procs, limit, name }, "\t") .. "\t"
   local wide = "\n" .. table.concat({ user, "*", "*", limit, "*" }, "\t") .. "\t"
   for _, key in ipairs({ exact, wide }) do
      local _, at = text:find(key, 1, true)
      if at then
         local minutes, seconds, ended = text:match("^(%d+)\t(%d+)\t(%d+)\t", at + 1)
         if seconds then return tonumber(seconds), tonumber(ended) end
      end
   end
   return nil
end

-- Returns when a job submitted now would start, P50 and P90, and when that was asked; nil where it is too old.
local function start_of(text, now, partition, procs)
   local class = 1
   while class < procs do class = 4 * class end
   local _, at = text:find("\n*\t" .. partition .. "\t" .. class .. "\t", 1, true)
   if not at then return nil end
   local p50, p90, asked = text:match("^%d+\tstart\t(%d+)\t(%d+)\t(%d+)\t", at + 1)
   p50, p90, asked = tonumber(p50), tonumber(p90), tonumber(asked)
   if not asked or now - asked > OLD or asked - now > 300 then return nil end
   return p50, p90, asked
end

-- Returns sbatch's --time as minutes, rounded up: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS.
local function minutes_of(text)
   local days, rest = tostring(text):match("^(%d+)%-(.+)$")
   local parts = {}
   for number in (rest or tostring(text)):gmatch("[^:]+") do
      if not number:match("^%d+$") then return nil end
      parts[#parts + 1] = tonumber(number)
   end
   local h, m, s = 0, 0, 0
   if days then h, m, s = parts[1] or 0, parts[2] or 0, parts[3] or 0
   elseif #parts == 1 then m = parts[1]
   elseif #parts == 2 then m, s = parts[1], parts[2]
   elseif #parts == 3 then h, m, s = parts[1], parts[2], parts[3]
   else return nil end
   return math.ceil((((days or 0) * 24 + h) * 3600 + m * 60 + s) / 60)
end

-- Returns an option's number; 1 where it is not given, for which Slurm says 0.
local function at_least_one(text)
   return math.max(tonumber(text) or 1, 1)
end

local function span(seconds)
   local minutes = math.max(math.ceil(seconds / 60), 1)
   if minutes < 60 then return minutes .. " min" end
   return string.format("%d h %02d", math.floor(minutes / 60), minutes % 60)
end

local function clock(second, now)
   if second <= now + 60 then return "now" end
   if os.date("%Y-%m-%d", second) == os.date("%Y-%m-%d", now) then return os.date("%H:%M", second) end
   return os.date(second < now + 6 * 86400 and "%a %H:%M" or "%Y-%m-%d %H:%M", second)
end

function slurm_cli_setup_defaults(options, early)
   return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
   pcall(function()
      asked = nil
      if options["type"] ~= nil and options["type"] ~= "sbatch" then return end
      local limit = options["time"] and minutes_of(options["time"])
      if not limit then return end
      local nodes = tonumber(tostring(options["nodes"]):match("^%d+"))
      local tasks = math.max(at_least_one(options["ntasks"]), nodes or 1)
      local procs = tasks * at_least_one(options["cpus-per-task"])
      asked = { limit = limit, procs = procs, name = options["job-name"] or "", partition = options["partition"] or "" }
   end)
   return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
   pcall(function()
      if not asked then return end
      local user, now = os.getenv("USER") or os.getenv("LOGNAME") or "", os.time()
      local text, said = table_text(now), {}
      if not text then return end
      local seconds, ended = row_of(text, user, asked.partition, asked.procs, asked.limit, asked.name)
      if seconds and ended >= FEWEST and seconds < 60 * asked.limit then
         said[1] = string.format("jobs like this ran at most %s (9 of 10, %d jobs); you asked for %s",
                                 span(seconds), ended, span(60 * asked.limit))
      end
      local p50, p90, at = start_of(text, now, asked.partition, asked.procs)
      if p50 then
         local middle, late = clock(p50, now), clock(p90, now)
         local by = late ~= middle and "9 of 10 by " .. late .. ", " or ""
         local age = math.max(math.floor((now - at) / 60), 0)
         said[#said + 1] = string.format("start expected %s (%sas of %d min ago)", middle, by, age)
      end
      if #said > 0 then io.stderr:write("sbatch: " .. table.concat(said, "; ") .. ".\n") end
   end)
   return slurm.SUCCESS
end
