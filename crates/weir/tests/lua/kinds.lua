-- Kinds of scripts that people write for wrk, each small. A line `--== NAME` begins one; behind the name: threads=N, args=A,B, needs=MODULE.
-- What a script prints behind `== ` is compared too, so it must not hang on time or on the number of answers.

--== defaults
wrk.headers["X-A"] = "b"

--== method-and-path
wrk.method = "DELETE"
wrk.path = "/items/9?force=1"

--== json-text
wrk.method = "POST"
wrk.body = '{"name":"a b","list":[1,2]}'
wrk.headers["Content-Type"] = "application/json"

--== number-as-body
request = function()
  return wrk.format("PUT", "/n", nil, 42)
end

--== number-as-default-body
wrk.method = "POST"
wrk.body = 7.5

--== empty-body
wrk.method = "POST"
wrk.body = ""

--== body-of-a-file
local file = io.open("kind.lua", "rb")
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()

--== multipart
local boundary = "----weir"
local parts = {}
for name, value in pairs({ file = "content" }) do
  parts[#parts + 1] = "--" .. boundary
  parts[#parts + 1] = 'Content-Disposition: form-data; name="' .. name .. '"; filename="a.txt"'
  parts[#parts + 1] = ""
  parts[#parts + 1] = value
end
parts[#parts + 1] = "--" .. boundary .. "--"
wrk.method = "POST"
wrk.headers["Content-Type"] = "multipart/form-data; boundary=" .. boundary
wrk.body = table.concat(parts, "\r\n")

--== basic-login
local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local function base64(data)
  return ((data:gsub(".", function(x)
    local r, b = "", x:byte()
    for i = 8, 1, -1 do r = r .. (b % 2 ^ i - b % 2 ^ (i - 1) > 0 and "1" or "0") end
    return r
  end) .. "0000"):gsub("%d%d%d?%d?%d?%d?", function(x)
    if #x < 6 then return "" end
    local c = 0
    for i = 1, 6 do c = c + (x:sub(i, i) == "1" and 2 ^ (6 - i) or 0) end
    return letters:sub(c + 1, c + 1)
  end) .. ({ "", "==", "=" })[#data % 3 + 1])
end
wrk.headers["Authorization"] = "Basic " .. base64("user:pass")

--== token-of-an-answer
local token
request = function()
  if not token then
    return wrk.format("POST", "/login", nil, "user=a")
  end
  return wrk.format("GET", "/private", { ["Authorization"] = "Bearer " .. token })
end
response = function(status, headers, body)
  for name, value in pairs(headers) do
    if name:lower() == "x-token" then token = value end
  end
end

--== counted-paths
local n = 0
function request()
  n = n + 1
  return wrk.format("GET", "/item/" .. n)
end

--== random-paths
math.randomseed(42)
request = function()
  return wrk.format(nil, "/r/" .. math.random(1, 1000) .. "?f=" .. string.format("%.3f", math.random()))
end

--== round-robin
local paths = { "/a", "/b?x=1", "/c/d" }
local at = 0
request = function()
  at = at % #paths + 1
  return wrk.format("GET", paths[at])
end

--== paths-of-arguments args=/one,/two
local given
init = function(args)
  given = args
  io.write("== ", #args, " ", tostring(args[3]), "\n")
end
local at = 0
request = function()
  at = at % #given + 1
  return wrk.format(nil, given[at])
end

--== escaped-query
local function escape(text)
  return (text:gsub("[^%w%-_%.~]", function(c) return string.format("%%%02X", c:byte()) end))
end
request = function()
  return wrk.format("GET", "/search?q=" .. escape("a b&c=d/é"))
end

--== pipelined-by-an-argument args=4
init = function(args)
  local all = {}
  for i = 1, tonumber(args[1]) do all[i] = wrk.format(nil, "/p" .. i) end
  text = table.concat(all)
end
request = function() return text end

--== threads-with-numbers threads=2
local counter = 0
function setup(thread)
  counter = counter + 1
  thread:set("id", counter)
end
function request()
  return wrk.format("GET", "/thread/" .. id)
end

--== threads-are-asked-at-the-end threads=2
local threads = {}
function setup(thread)
  thread:set("name", "t" .. #threads)
  threads[#threads + 1] = thread
end
function init(args) answers = 0 end
function response(status, headers, body) answers = answers + 1 end
function done(summary, latency, requests)
  for _, thread in ipairs(threads) do
    io.write("== ", thread:get("name"), " ", thread:get("answers"), " ", tostring(thread:get("none")), "\n")
  end
end

--== delays
math.randomseed(7)
function delay()
  return math.random(0, 10)
end

--== delay-without-a-number
function delay() end

--== statuses-are-counted
local codes = {}
function setup(thread) first = thread end
function init() ok = 0 end
function response(status, headers, body)
  if status == 200 and body == "hello" then ok = ok + 1 end
end
function done() io.write("== ", first:get("ok"), "\n") end

--== body-is-matched
local seen = "none"
request = function() return wrk.format("GET", "/after/" .. seen) end
response = function(status, headers, body) seen = body:match("^(%a+)$") or "nothing" end

--== fields-of-an-answer
function setup(thread) first = thread end
function init() names = "" end
function response(status, headers, body)
  local all = {}
  for name, value in pairs(headers) do all[#all + 1] = name .. "=" .. value end
  table.sort(all)
  names = table.concat(all, ";")
end
function done() io.write("== ", first:get("names"), "\n") end

--== states-of-response
local step = 0
function third(status, headers, body) step = 3 end
function second(status, headers, body)
  step = 2
  response = third
end
function response(status, headers, body)
  step = 1
  response = second
end
function request() return wrk.format("GET", "/step/" .. step) end

--== states-of-request
local function later() return wrk.format("GET", "/later") end
request = function()
  request = later
  return wrk.format("POST", "/first", nil, "x")
end

--== nothing-after-stop
local n = 0
function request()
  n = n + 1
  if n > 6 then
    wrk.thread:stop()
    return nil
  end
  return wrk.format("GET", "/" .. n)
end

--== stop-after-answers
local n = 0
function response()
  n = n + 1
  if n == 5 then wrk.thread:stop() end
end

--== wrapped-init
local inner = wrk.init
wrk.init = function(args)
  wrk.headers["X-Wrapped"] = "yes"
  inner(args)
end

--== wrapped-format
local inner = wrk.format
wrk.format = function(method, path, headers, body)
  return inner(method, (path or wrk.path) .. "&w", headers, body)
end
request = function() return wrk.format("GET", "/x?") end

--== coroutine
local make = coroutine.wrap(function()
  local i = 0
  while true do
    for _, method in ipairs({ "GET", "PUT", "POST" }) do
      i = i + 1
      coroutine.yield(wrk.format(method, "/c/" .. i, nil, method ~= "GET" and "b" .. i or nil))
    end
  end
end)
request = function() return make() end

--== cookies
local n = 0
request = function()
  n = n + 1
  wrk.headers["Cookie"] = "session=" .. n .. "; lang=en"
  return wrk.format()
end

--== fields-of-other-types
wrk.headers["X-Number"] = 5
wrk.headers["X-Float"] = 1.5
wrk.headers["X-Flag"] = tostring(true)

--== other-host
wrk.headers["Host"] = "other.example"

--== own-fields-get-a-host
request = function()
  return wrk.format("GET", "/own", { ["Accept"] = "*/*", ["Connection"] = "keep-alive" })
end

--== written-by-hand
request = function()
  return "GET /by/hand HTTP/1.1\r\nHost: " .. wrk.host .. "\r\nX-Port: " .. tostring(wrk.port ~= nil) .. "\r\n\r\n"
end

--== environment-and-clock
local name = os.getenv("WEIR_NO_SUCH_VARIABLE") or "default"
local year = os.date("!%Y", 0)
wrk.path = "/" .. name .. "/" .. year .. "/" .. type(os.time()) .. "/" .. type(os.clock())

--== metatables
function done(summary, latency, requests)
  local meta = getmetatable(requests)
  io.write("== ", type(meta), " ", type(meta.__index), " ", type(meta.__len), " ", type(meta.__call), "\n")
  io.write("== ", type(getmetatable(latency)), " ", tostring(meta.__index(latency, "min") == latency.min), "\n")
  io.write("== ", tostring(getmetatable("x").__index == string), " ", tostring(getmetatable({})), "\n")
end

--== a-report-as-a-table
function done(summary, latency, requests)
  local file = io.open("report.csv", "w")
  file:write("min,p99\n", latency.min, ",", latency:percentile(99.0), "\n")
  file:close()
  local first, second = nil, nil
  for line in io.lines("report.csv") do
    if not first then first = line else second = line end
  end
  io.write("== ", first, " ", tostring(second:match("^%d+,%d+%.?%d*$") ~= nil), "\n")
  io.write(string.format("== %s %s\n", tostring(summary.requests >= 1), tostring(summary.errors.status == 0)))
end

--== values-one-by-one
function done(summary, latency, requests)
  local sum = 0
  for i = 1, #latency do
    local value, count = latency(i)
    sum = sum + count
  end
  io.write("== ", sum == summary.requests and "all" or "not all: " .. sum .. " of " .. summary.requests, "\n")
end

--== libraries
local ffi = require("ffi")
local bit = require("bit")
ffi.cdef("int abs(int);")
wrk.path = "/" .. ffi.C.abs(-5) .. "/" .. bit.band(6, 3) .. "/" .. #string.rep("x", 3) .. "/" .. tostring(require("wrk") == wrk)

--== code-in-a-text
local make = loadstring("return function(n) return '/made/' .. n end")()
wrk.path = make(3)

--== bytes
wrk.method = "PUT"
wrk.body = "\0\1\255" .. "é" .. string.char(10, 13)

--== large-body
wrk.method = "POST"
wrk.body = string.rep("0123456789", 2000)

--== address-of-the-thread
function init(args)
  local text = tostring(wrk.thread.addr)
  wrk.headers["X-Is-An-Address"] = tostring(text:match("^127%.0%.0%.1:%d+$") ~= nil)
end

--== many-hosts
local servers = { { host = "127.0.0.1", path = "/first" }, { host = "127.0.0.1", path = "/second" } }
local n = 0
request = function()
  n = n % #servers + 1
  wrk.headers["Host"] = servers[n].host .. ":80" .. n
  return wrk.format("GET", servers[n].path)
end

--== clock-of-luasocket needs=socket.core
-- As DeathStarBench seeds its scripts, and asks by whole URLs.
local socket = require("socket")
math.randomseed(socket.gettime() * 0 + 3)
math.random(); math.random(); math.random()
function string.random(length)
  return length > 0 and string.random(length - 1) .. string.char(math.random(97, 122)) or ""
end
local max_user_index = tonumber(os.getenv("max_user_index")) or 962
request = function()
  local user = math.random(0, max_user_index - 1)
  local headers = { ["Content-Type"] = "application/x-www-form-urlencoded" }
  local body = "username=username_" .. user .. "&text=" .. string.random(16) .. "&media_types=[\"png\"]"
  return wrk.format("POST", "http://localhost:8080/wrk2-api/post/compose", headers, body)
end

--== mixed-load-of-luasocket needs=socket.core
require("socket")
math.randomseed(11)
local function search()
  return wrk.format("GET", "http://localhost:5000/hotels?inDate=2015-04-" .. math.random(9, 23) .. "&lat=38.0", {}, nil)
end
local function reserve()
  return wrk.format("POST", "http://localhost:5000/reservation?number=1", {}, nil)
end
request = function()
  return math.random() < 0.6 and search() or reserve()
end

--== urls-of-luasocket needs=socket.core
local url = require("socket.url")
local mime = require("mime")
wrk.path = "/q?" .. url.escape("a b&c")
wrk.headers["Authorization"] = "Basic " .. mime.b64("me:secret")

--== json-of-cjson needs=cjson
local cjson = require("cjson")
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = cjson.encode({ 1, "two", { three = 3 } })

--== json-of-an-answer needs=cjson
local cjson = require("cjson.safe")
local n = 0
request = function() return wrk.format("GET", "/n/" .. n) end
response = function(status, headers, body)
  local value, why = cjson.decode('{"n":' .. #body .. "}")
  n = value and value.n or why
end
