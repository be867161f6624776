-- One line of advice after sbatch, from the table that `jobcast slurm … --table` keeps. It reads one local file, and is
-- silent on every failure. docs/how-to/slurm.md says how to install it: a cli_filter.lua that is broken makes every sbatch
-- fail, so put it in place whole. Set these two:
local TABLE = "/var/lib/jobcast/soft-limits"
local CLUSTER = ""      -- ClusterName of slurm.conf; a table of another cluster is none

local MOST = 16777216   -- bytes; a longer file is no table of ours
local FEWEST = 5        -- jobs that have ended, below which nothing is said

local asked = nil

-- Returns the row of a job; nil where the table is not ours, not whole, or does not hold now.
local function row_of(user, partition, procs, limit, name)
   local file = io.open(TABLE, "rb")
   if not file then return nil end
   local size = file:seek("end")
   file:seek("set")
   local text = size and size <= MOST and file:read("*a") or nil
   file:close()
   if not text then return nil end
   local cluster, written, expires, count =
      text:match("^jobcast%-table 1 (%S+) %S+ (%d+) (%d+) %d+ %d+ (%d+)\n")
   local now = os.time()
   if cluster ~= CLUSTER or now < tonumber(written) - 300 or now > tonumber(expires) then return nil end
   local trailer = "\nend " .. count .. "\n"
   if text:sub(-#trailer) ~= trailer then return nil end
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

local function span(seconds)
   local minutes = math.max(math.ceil(seconds / 60), 1)
   if minutes < 60 then return minutes .. " min" end
   return string.format("%d h %02d", math.floor(minutes / 60), minutes % 60)
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
      local procs = (tonumber(options["ntasks"]) or 1) * (tonumber(options["cpus-per-task"]) or 1)
      asked = { limit = limit, procs = procs, name = options["job-name"] or "", partition = options["partition"] or "" }
   end)
   return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
   pcall(function()
      if not asked then return end
      local user = os.getenv("USER") or os.getenv("LOGNAME") or ""
      local seconds, ended = row_of(user, asked.partition, asked.procs, asked.limit, asked.name)
      if not seconds or ended < FEWEST or seconds >= 60 * asked.limit then return end
      io.stderr:write(string.format("sbatch: jobs like this ran at most %s (9 of 10, %d jobs); you asked for %s.\n",
                                    span(seconds), ended, span(60 * asked.limit)))
   end)
   return slurm.SUCCESS
end
