-- What a script of wrk's interface finds in the table `wrk`. Written to the documented interface. Returns what the loop calls.
local given = ...

wrk = {
  scheme = given.scheme,
  host = given.host,
  port = given.port,
  path = given.path,
  method = given.method,
  headers = given.headers,
  body = given.body,
  lookup = given.lookup,
  connect = given.connect,
}
package.loaded.wrk = wrk

-- The folders of distributions, behind LuaJIT's own and the user's LUA_PATH.
local function with(path, patterns)
  for _, pattern in ipairs(patterns) do
    if not (";" .. path .. ";"):find(";" .. pattern .. ";", 1, true) then
      path = path .. ";" .. pattern
    end
  end
  return path
end
package.path = with(package.path, given.modules)
package.cpath = with(package.cpath, given.c_modules)

-- The file of a C module, or where it was looked for.
local function c_module(name)
  local tried = {}
  for pattern in package.cpath:gmatch("[^;]+") do
    local file = pattern:gsub("%?", function() return (name:gsub("%.", "/")) end)
    local found = io.open(file)
    if found then
      found:close()
      return file
    end
    tried[#tried + 1] = "\n\tno file '" .. file .. "'"
  end
  return nil, table.concat(tried)
end

if given.static then
  -- In place of the two loaders of C modules: this program has no loader of shared objects.
  package.loaders[3] = function(name)
    local file, tried = c_module(name)
    if not file then
      return tried
    end
    error(("cannot load the C module '%s' (%s): this is weir's static build, which loads none; run the script with the "
      .. "build for this system's libc (make build), or use a module that is written in Lua"):format(name, file), 0)
  end
  package.loaders[4] = nil
end

-- wrk's objects show their metatables, as any userdata does unless it hides them.
local shown = getmetatable
function getmetatable(value)
  local meta = shown(value)
  if meta == false and type(value) == "userdata" then
    return debug.getmetatable(value)
  end
  return meta
end

function wrk.resolve(host, service)
  wrk.addrs = {}
  for _, addr in ipairs(wrk.lookup(host, service)) do
    if wrk.connect(addr) then
      wrk.addrs[#wrk.addrs + 1] = addr
    end
  end
end

function wrk.setup(thread)
  if wrk.addrs and wrk.addrs[1] then
    thread.addr = wrk.addrs[1]
  end
  if type(setup) == "function" then
    setup(thread)
  end
end

function wrk.init(args)
  if not wrk.headers["Host"] then
    local host = wrk.host
    if host:find(":", 1, true) then
      host = "[" .. host .. "]"
    end
    if wrk.port then
      host = host .. ":" .. wrk.port
    end
    wrk.headers["Host"] = host
  end
  if type(init) == "function" then
    init(args)
  end
  local text = wrk.format()
  wrk.request = function()
    return text
  end
end

function wrk.format(method, path, headers, body)
  headers = headers or wrk.headers
  body = body or wrk.body
  if not headers["Host"] then
    headers["Host"] = wrk.headers["Host"]
  end
  -- A number has a length as the text that it becomes.
  headers["Content-Length"] = body and string.len(body)
  local lines = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1" }
  for name, value in pairs(headers) do
    lines[#lines + 1] = tostring(name) .. ": " .. tostring(value)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = body or ""
  return table.concat(lines, "\r\n")
end

-- Looked up at each call: a script may put another function in its place while it runs.
return {
  request = function()
    local ask = request
    if type(ask) ~= "function" then
      ask = wrk.request
    end
    return ask()
  end,
  response = function(status, headers, body)
    if type(response) == "function" then
      return response(status, headers, body)
    end
  end,
  delay = function()
    if type(delay) == "function" then
      return delay()
    end
  end,
}
