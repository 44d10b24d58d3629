-- Threads that know their number, and an end that asks each of them.
local counter = 1
local threads = {}

function setup(thread)
  thread:set("id", counter)
  thread:set("flag", true)
  table.insert(threads, thread)
  counter = counter + 1
end

function init(args)
  made = 0
  words = args[0] .. " " .. tostring(args[1]) .. " " .. tostring(args[2]) .. " " .. #args
end

function request()
  made = made + 1
  wrk.headers["X-Id"] = id
  wrk.headers["X-Given"] = tostring(flag)
  return wrk.request():sub(1, -3) .. "X-Words: " .. words .. "\r\nX-Made: " .. made .. "\r\n\r\n"
end

function done(summary, latency, requests)
  for index, thread in ipairs(threads) do
    io.write("== thread ", thread:get("id"), " made ", thread:get("made") > 0 and "some" or "none", "\n")
  end
end
