-- Every request differs.
local counter = 0
request = function()
  wrk.headers["X-Counter"] = counter
  counter = counter + 1
  return wrk.format(nil, "/" .. counter)
end
