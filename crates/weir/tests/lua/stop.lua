-- A thread that has had enough.
local counter = 0
function request()
  counter = counter + 1
  if counter == 10 then
    wrk.thread:stop()
  end
  return wrk.format(nil, "/" .. counter)
end
