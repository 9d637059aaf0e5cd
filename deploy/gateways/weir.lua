-- The action weir asks weir serve about a request: http-request lua.weir URL open|closed.
-- It refuses the request if weir denies it. Without a decision, it lets the request pass (open),
-- or refuses it (closed).

local timeout = 1000 -- milliseconds; haproxy.cfg has a shorter one

-- refuse answers the client.
local function refuse(txn, status, headers, body)
    local reply = txn:reply()
    reply:set_status(status)
    for name, value in pairs(headers) do
        reply:add_header(name, value)
    end
    reply:set_body(body)
    txn:done(reply)
end

-- first returns the first value of a header field, or nil.
local function first(headers, name)
    local values = headers and headers[name]
    return values and values[0]
end

core.register_action("weir", { "http-req" }, function(txn, url, away)
    local headers = { ["weir-address"] = { txn.f:src() } }
    local key = first(txn.http:req_get_headers(), "x-api-key")
    if key and #key <= 200 and not key:find("[^!-~]") then
        headers["weir-key"] = { "key:" .. key }
    end
    -- headers["authorization"] = { "Bearer SECRET" } -- with --tokens

    local answer = core.httpclient():get { url = url, headers = headers, timeout = timeout }
    local status = answer and answer.status or 0
    local fields = {
        ["RateLimit"] = first(answer and answer.headers, "ratelimit"),
        ["RateLimit-Policy"] = first(answer and answer.headers, "ratelimit-policy"),
    }
    if status == 200 then
        txn:set_var("txn.weir_ratelimit", fields["RateLimit"])
        txn:set_var("txn.weir_policy", fields["RateLimit-Policy"])
    elseif status == 429 then
        fields["Retry-After"] = first(answer.headers, "retry-after")
        fields["Content-Type"] = first(answer.headers, "content-type")
        refuse(txn, 429, fields, answer.body or "")
    elseif away ~= "open" then
        refuse(txn, 503, { ["Retry-After"] = "1", ["Content-Type"] = "application/problem+json" },
            '{"type":"about:blank","title":"Service Unavailable","status":503}')
    end
end, 2)
