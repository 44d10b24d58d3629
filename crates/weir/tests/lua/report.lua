-- A report of one's own.
done = function(summary, latency, requests)
  io.write("== duration ", type(summary.duration), " requests ", summary.requests > 0 and "some" or "none", "\n")
  io.write("== bytes ", type(summary.bytes), "\n")
  for _, name in ipairs({ "connect", "read", "write", "status", "timeout" }) do
    io.write("== ", name, " ", summary.errors[name], "\n")
  end
  io.write("== ordered ", tostring(latency.min <= latency:percentile(50) and latency:percentile(50) <= latency.max), "\n")
  io.write("== mean ", tostring(latency.mean > 0), " stdev ", type(latency.stdev), "\n")
  local value, count = latency(1)
  io.write("== first ", tostring(value == latency.min), " ", tostring(count >= 1), " ", tostring(#latency >= 1), "\n")
  io.write("== requests ", type(requests.max), "\n")
end
