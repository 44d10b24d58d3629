-- Requests with pauses between them.
local n = 0
function delay()
  n = n + 1
  return n % 3 * 5
end
