-- What a script of wrk's interface finds in the table `wrk`. Written to the documented interface.
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
  headers["Content-Length"] = body and #body
  local lines = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1" }
  for name, value in pairs(headers) do
    lines[#lines + 1] = tostring(name) .. ": " .. tostring(value)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = body or ""
  return table.concat(lines, "\r\n")
end
