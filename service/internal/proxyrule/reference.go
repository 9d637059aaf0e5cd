package proxyrule

import (
	"fmt"
	"slices"

	"github.com/weir-go/weir/service/internal/filedoc"
)

// Reference describes every key of a file, in the order of their use.
var Reference = slices.Concat([]filedoc.Field{
	mode("mode", "With `shadow`, everything decides and counts, also the limit of `--limit`, but no request is rejected, waits, or is answered by a cache, and no response tells rates."),
	{Path: "max_pressure", Kind: filedoc.Share, Default: "`--max-pressure`", Example: "0.4",
		Text: "The share of the time in which work may wait for the processor. Above it, a rising part of the requests is rejected before any limit is asked: `sheddable` ones first, then `sheddable_plus`, then up to half of `critical`; never `critical_plus`. 0: none."},
	{Path: "health_path", Kind: filedoc.Text, Default: "`--health-path`", Example: "/healthz",
		Text: "The path of health checks: each origin gets a `GET` of it every `health_interval`. A status from 200 to 399 within that time is good; two others in a row eject the origin until a check is good. Empty: no checks."},
	duration("health_interval", "`--health-interval`", "5s", "The time between two health checks of an origin, at least 100ms."),
	{Path: "fields", Kind: filedoc.Enum, Values: []string{"draft", "x", "x_unix", "draft_x", "draft_next", "none"}, Default: "`draft`", Example: "draft_x",
		Text: "The header fields that tell clients their rates: `draft` is `RateLimit` and `RateLimit-Policy`; `x` is `X-RateLimit-Limit`, `-Remaining` and `-Reset` in seconds; `x_unix` has the reset as a time since 1970; `draft_x` is `draft` and `x`; `draft_next` is `draft` with the parameters `a` and `w` of `RateLimit` in place of `r` and `t`, as proposed for a draft after 11."},
	{Path: "rules", Kind: filedoc.List,
		Text: fmt.Sprintf("Limits of clients: rates, and requests in flight; at most %d. A request takes a token, or a unit, of each rule that applies to it, or of none: if a rule denies it, the others and the limit get back what they gave. The answer to a denied request is 429.", MaxRules)},
	{Path: "rules[].name", Kind: filedoc.Text, Example: "clients",
		Text: "Names the rule in answers, metrics and logs: at most 64 printable ASCII characters but `\"` and `\\`, no two the same. A rule keeps its tokens and counts over a reload if it keeps its name and `by`."},
	{Path: "rules[].by", Kind: filedoc.Texts, Default: "one bucket for all requests", Example: "[header X-Api-Key, query api_key, address]",
		Text: "Sources of the key; each key has a bucket. A source is `address` (of the client; for IPv6 its network of 64 bits; clients at a Unix socket have none), `header NAME`, `cookie NAME`, `query NAME`, `route` (the pattern of `routes`), `method` or `host`, or several: `address + route`. " +
			"The first source that a request has counts; requests without any share a bucket. A client can choose its header, cookie or parameter, and with each value it has another bucket: check it in front, or add a rule by address."},
	{Path: "rules[].rate", Kind: filedoc.Rate, Example: "100/m",
		Text: "Tokens per period: `100/s`, `5/m`, `1000/h`, `10000/d`, `100/90s`; the period from 1ms to 10 years. A rule has a rate or a `limit`. With `0/s`, a bucket is never refilled: without `burst`, all requests are denied."},
	{Path: "rules[].burst", Kind: filedoc.Number, Unit: "tokens", Least: 1, Most: maxTokens, Default: "the count of the rate", Example: "20",
		Text: "The capacity of a bucket: the most requests at once."},
	{Path: "rules[].limit", Kind: filedoc.Number, Unit: "requests", Least: 1, Most: maxUnits, Example: "10",
		Text: "How many requests of each key may be in flight at once, from the arrival to the end of the answer: event streams and upgraded connections count for as long as they last. More are denied. A rule with a limit has no `rate`, `burst` and `max_wait`."},
	duration("rules[].max_wait", "no request waits", "500ms", "A request waits for its token up to this time, in order of arrival."),
	{Path: "rules[].routes", Kind: filedoc.Texts, Default: "all requests", Example: `["POST /login", /api/]`,
		Text: "The requests to which the rule applies: " + patternText},
	{Path: "rules[].except", Kind: filedoc.Texts, Default: "none", Example: "/healthz", Text: "Patterns of requests to which the rule does not apply."},
	{Path: "rules[].memory", Kind: filedoc.Size, Default: "`16MiB`", Example: "64MiB",
		Text: "Bounds the memory for keys, at least `64KiB`. A MiB has about 30,000 keys. When it is full, the keys that owe least are forgotten. With `limit`, a MiB has 16,384 keys with requests in flight; when it is full, other keys are denied."},
	mode("rules[].mode", "With `shadow`, the rule decides and counts, but denies nothing, and clients are not told about it."),
	{Path: "classes", Kind: filedoc.List,
		Text: fmt.Sprintf("Sets of routes with limits of their own; at most %d. The most specific pattern of all classes decides. Requests that no pattern matches are in the class `default`.", MaxClasses)},
	{Path: "classes[].name", Kind: filedoc.Text, Example: "reports",
		Text: "Names the class in metrics and logs, as for rules; not `default` or `total`. A class keeps its limit, queue and counts over a reload if it keeps its name."},
	{Path: "classes[].routes", Kind: filedoc.Texts, Example: `[/reports/, "GET /export/{id}"]`, Text: "The requests of the class; must be given: " + patternText},
}, class("classes[].", "A class without `limit` shares the limit and the queue of the class `default`."), []filedoc.Field{
	{Path: "default", Kind: filedoc.Object, Example: "{max_body: 1MiB}", Text: "The class of all other requests. What it leaves out is as the flags say."},
}, class("default.", "If left out, as `--limit` says."), []filedoc.Field{
	{Path: "total", Kind: filedoc.Object, Example: "{limit: 100}",
		Text: "A limit of the requests in flight of all classes together. A request takes a unit of its class first, and waits here afterwards, by priority. Without it, the limits of the classes add up."},
}, concurrency("total.", "Must be given."), []filedoc.Field{
	{Path: "priority", Kind: filedoc.Object, Example: "{header: X-Priority, trust: [10.0.0.0/8]}",
		Text: "Takes the priority of a request from a header. Requests of a higher priority leave the queue first, and take the place of others if it is full."},
	{Path: "priority.header", Kind: filedoc.Text, Example: "X-Priority", Text: "The name of the header. Must be given. A value that is not known counts as none."},
	{Path: "priority.levels", Kind: filedoc.Map, Default: "the values are the levels", Example: "{gold: critical_plus, trial: sheddable}",
		Text: "The level of each value of the header: `sheddable`, `sheddable_plus`, `critical` or `critical_plus`."},
	{Path: "priority.trust", Kind: filedoc.Texts, Default: "none", Example: `[10.0.0.0/8, "2001:db8::7"]`,
		Text: "Addresses and networks of clients, or `unix` for clients at a Unix socket. Their header may raise the priority above the one of the class. The header of any other client can only lower it."},
	{Path: "tenants", Kind: filedoc.Object, Example: "{by: header X-Api-Key}",
		Text: "Tenants of the same priority share limits fairly: when requests wait, each tenant is served in turn, however many requests it sends."},
	{Path: "tenants.by", Kind: filedoc.Texts, Example: "[header X-Api-Key, address]", Text: "Sources of the tenant, as `rules[].by`; `route` stands for the pattern of the class. Must be given."},
	{Path: "tenants.weights", Kind: filedoc.Numbers, Least: 1, Most: maxWeight, Default: "1 each", Example: "{acme: 3}", Text: "Shares of single tenants."},
	{Path: "deadline", Kind: filedoc.Object, Example: "{header: grpc-timeout}",
		Text: "Takes from a header how long a client waits. A request that cannot be answered by then is rejected at once, or when its time is over: the origin is spared. The shorter one of this and the `deadline` of the class counts."},
	{Path: "deadline.header", Kind: filedoc.Text, Example: "X-Request-Deadline",
		Text: "The name of the header; must be given. Its value is a time from now: milliseconds, as in `250`, or with a unit, as in `1.5s`; for `grpc-timeout` digits and a unit of gRPC. A value that cannot be read counts as none."},
	duration("deadline.max", "no bound", "30s", "The longest deadline; a longer one is shortened."),
})

const patternText = "patterns of Go's [ServeMux](https://pkg.go.dev/net/http#hdr-Patterns-ServeMux). `/api/` is all paths below it, `/api` that path alone, `GET /users/{id}` one method and any element, `example.com/` one host. Escapes and `..` in paths are resolved before."

func mode(path, text string) filedoc.Field {
	return filedoc.Field{Path: path, Kind: filedoc.Enum, Values: []string{"enforce", "shadow"}, Default: "`enforce`", Example: "shadow", Text: text}
}

func duration(path, otherwise, example, text string) filedoc.Field {
	return filedoc.Field{Path: path, Kind: filedoc.Duration, Default: otherwise, Example: example, Text: text}
}

// concurrency describes the keys of a Concurrency.
func concurrency(in, without string) []filedoc.Field {
	number := func(name, flag, example, text string) filedoc.Field {
		return filedoc.Field{Path: in + name, Kind: filedoc.Number, Unit: "requests", Least: 1, Most: maxUnits, Default: "`" + flag + "`", Example: example, Text: text}
	}
	return []filedoc.Field{
		{Path: in + "limit", Kind: filedoc.Number, Unit: "requests", Values: LimitNames, Most: maxUnits, Example: "5",
			Text: "The requests that may be in flight. `auto` adapts it to the origin; `aimd`, `vegas` and `gradient2` are there for comparison. " + without},
		number("initial_limit", "--initial-limit", "20", "Where an adaptive limit begins."),
		number("min_limit", "--min-limit", "2", "Lower bound of an adaptive limit."),
		number("max_limit", "--max-limit", "200", "Upper bound of an adaptive limit."),
		duration(in+"max_healthy_latency", "`--max-healthy-latency`", "2s", "For `auto` and `aimd`: a longer response time of the origin is overload."),
		duration(in+"slow_start", "`--slow-start`", "5m", "After one to two times this time without use, and at first, the limit begins at a tenth, and doubles while requests succeed; 0: none."),
		{Path: in + "queue", Kind: filedoc.Number, Unit: "requests", Most: maxQueue, Default: "`--queue`", Example: "20",
			Text: "How many requests may wait while the limit is reached; 0: none."},
		duration(in+"max_wait", "`--max-wait`", "2s", "How long a request may wait; 0: until its client gives up."),
	}
}

// class describes the keys of a Class, without its name and routes.
func class(in, without string) []filedoc.Field {
	return append(concurrency(in, without),
		duration(in+"timeout", "`--timeout`", "60s", "How long the origin may take until the header of its answer; 0: no time-out."),
		duration(in+"deadline", "none", "5s", "How long a request may take in all, from its arrival to the end of the answer: also in queues, also of an event stream. A request that would get its turn too late is rejected at once."),
		filedoc.Field{Path: in + "max_body", Kind: filedoc.Size, Default: "`--max-body`", Example: "64KiB", Text: "The largest body of a request; a larger one gets 413. 0: no bound."},
		filedoc.Field{Path: in + "priority", Kind: filedoc.Enum, Values: LevelNames, Default: "`critical`", Example: "sheddable",
			Text: "The priority of requests: in a queue shared with other classes, a higher one goes first."},
		filedoc.Field{Path: in + "cache", Kind: filedoc.Object, Example: "{ttl: 10s, stale: 1m}",
			Text: "Keeps responses to GET and HEAD in front of the limit, by the rules of HTTP caching, and asks the origin once for requests that come together. Rates count requests whether the cache or the origin answers."},
		duration(in+"cache.ttl", "`0s`", "10s", "How long a response is fresh that does not say so itself. With `0s`, such a response goes only to the requests that wait for it."),
		duration(in+"cache.stale", "`0s`", "1m", "How long an old response is served while one request fetches a new one."),
		duration(in+"cache.stale_if_error", "`0s`", "1h", "How long an old response is served when the origin fails."),
		duration(in+"cache.stale_if_rejected", "`0s`", "1h", "How long an old response is served when the limit rejects."),
		filedoc.Field{Path: in + "cache.memory", Kind: filedoc.Size, Default: "`64MiB`", Example: "256MiB", Text: "Bounds the memory for responses, at least `1KiB`."},
		filedoc.Field{Path: in + "cache.max_body", Kind: filedoc.Size, Default: "`1MiB`", Example: "256KiB", Text: "The largest body that is kept; at most `memory`."},
		filedoc.Field{Path: in + "cache.ignore_cookies", Kind: filedoc.Flag, Default: "`false`", Example: "true", Text: "Responses do not depend on cookies: the origin does not see them. Without it, a request with a cookie gets a shared response only if that is `public`."},
		filedoc.Field{Path: in + "cache.vary", Kind: filedoc.Texts, Default: "the headers of `by`", Example: "[Accept-Language]",
			Text: "Request headers that select a response, besides the `Vary` of responses. Name each header that identifies a client, such as an API key, or clients get responses of others."},
		mode(in+"mode", "With `shadow`, the limit decides and counts, but no request is rejected or waits; time-out, deadline, body bound and cache have no effect."),
	)
}

// Schema returns a JSON schema of a file, for editors. Load checks more.
func Schema() map[string]any {
	s := filedoc.Schema(Reference)
	s["title"] = "Rules of weir proxy"
	properties := s["properties"].(map[string]any)
	for name, required := range map[string][]string{"rules": {"name"}, "classes": {"name", "routes"}} {
		properties[name].(map[string]any)["items"].(map[string]any)["required"] = required
	}
	properties["rules"].(map[string]any)["items"].(map[string]any)["oneOf"] = []any{
		map[string]any{"required": []string{"rate"}}, map[string]any{"required": []string{"limit"}},
	}
	for name, required := range map[string][]string{"total": {"limit"}, "priority": {"header"}, "tenants": {"by"}, "deadline": {"header"}} {
		properties[name].(map[string]any)["required"] = required
	}
	return s
}
