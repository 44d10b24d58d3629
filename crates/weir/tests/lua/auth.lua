-- The first answer's field becomes a field of later requests.
local token
local path = "/login"

request = function()
  return wrk.format("GET", path)
end

response = function(status, headers, body)
  if not token and status == 200 then
    token = headers["X-Token"]
    path = "/content/" .. #body
    wrk.headers["X-Token"] = token
  end
end
