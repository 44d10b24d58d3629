-- Three requests at once.
init = function(args)
  local r = {}
  r[1] = wrk.format(nil, "/?one")
  r[2] = wrk.format("POST", "/?two", { ["X-Two"] = "2" }, "body")
  r[3] = wrk.format(nil, "/?three")
  text = table.concat(r)
end

request = function()
  return text
end
