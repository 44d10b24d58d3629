-- Each thread gets one of the host's addresses that accept a connection.
local found
function setup(thread)
  if not found then
    found = {}
    for _, addr in ipairs(wrk.lookup(wrk.host, wrk.port or "http")) do
      if wrk.connect(addr) then found[#found + 1] = addr end
    end
  end
  thread.addr = found[1]
  thread:set("own", tostring(thread.addr))
end

function init(args)
  wrk.headers["X-Addr"] = tostring(wrk.thread.addr) .. " " .. own
end
