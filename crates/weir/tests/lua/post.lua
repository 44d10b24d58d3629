-- A body, by setting the defaults alone.
wrk.method = "POST"
wrk.body = "a=1&b=2\0c"
wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
