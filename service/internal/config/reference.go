package config

import (
	"strconv"

	"github.com/weir-go/weir/service/internal/filedoc"
)

// Reference describes every key of a file of rules, in the order of their use.
var Reference = append([]filedoc.Field{
	{Path: "apply", Kind: filedoc.Enum, Values: []string{"first", "all"}, Default: "`first`", Example: "all",
		Text: "Which of the rules that match a key count: the first one, or all of them. With `all`, a request takes from each, or from none."},
	{Path: "unmatched", Kind: filedoc.Enum, Values: []string{"allow", "deny"}, Default: "`allow`", Example: "deny",
		Text: "The decision for keys that no rule matches."},
	{Path: "rules", Kind: filedoc.List, Text: "The rules; at most 100,000. `[]` if there are none."},
	{Path: "rules[].name", Kind: filedoc.Text, Default: "made from the pattern", Example: "logins",
		Text: "Names the rule in answers, metrics and logs: at most 64 printable ASCII characters but `\"` and `\\`, no two the same. " +
			"A rule keeps its counts over a reload if it keeps its name."},
	{Path: "rules[].key", Kind: filedoc.Text, Example: "reports", Text: "Matches exactly this key. Keys have no surrounding space and no control characters. A rule has one of `key`, `glob`, `regex` and `entries`."},
	{Path: "rules[].glob", Kind: filedoc.Text, Example: `"login:*"`,
		Text: "Matches the whole key: `*` is any text, including / and none; `?` is any one character; `\\` escapes the next one. At most 4096 bytes."},
	{Path: "rules[].regex", Kind: filedoc.Text, Example: `"^user:[0-9]+$"`,
		Text: "Matches a part of the key ([RE2](https://github.com/google/re2/wiki/Syntax)); with `^` and `$`, all of it. At most 4096 bytes."},
	{Path: "rules[].domain", Kind: filedoc.Text, Default: "any domain", Example: "edge",
		Text: "With `entries`: matches the domain of a [descriptor](envoy.md#keys-of-descriptors), as a glob."},
	{Path: "rules[].entries", Kind: filedoc.Map, Example: `{method: POST, path: "/api/*"}`,
		Text: "Matches keys of descriptors which have all these entries, in any order, among others. Each value is a glob for the text before escaping: " +
			"`\"*\"` is any value of an entry that the descriptor has. At most 4096 bytes with `domain`."},
	{Path: "rules[].per", Kind: filedoc.Enum, Values: []string{"key", "rule"}, Default: "`key`", Example: "rule",
		Text: "The scope of the bucket and of the concurrency: each key its own, or one for all keys that match."},
}, append(append(quota("rules[].", "A rule has a rate, a concurrency, or both."),
	filedoc.Field{Path: "rules[].queue", Kind: filedoc.Number, Unit: "requests", Most: maxQueue, Default: strconv.Itoa(DefaultQueue), Example: "20",
		Text: "How many requests may wait for one bucket."},
	filedoc.Field{Path: "rules[].max_wait", Kind: filedoc.Duration, Default: "`1h`", Example: "10s",
		Text: "Bounds the wait for tokens, > 0. With `queue: 0`, no request waits."},
	filedoc.Field{Path: "rules[].max_debt", Kind: filedoc.Number, Unit: "tokens", Most: maxCount, Default: "the burst", Example: "0",
		Text: "How far settlements may overdraw a bucket: work that cost more than was taken. 0 is not at all."},
	filedoc.Field{Path: "rules[].own_quota", Kind: filedoc.Flag, Default: "`false`", Example: "true",
		Text: "Requests may bring a quota of their own, as `CL.THROTTLE` does. A bucket for the key and that quota decides then, instead of the rate. With `false`, such requests are an error if the rule has a rate, unless it is in `mode: shadow`."},
	filedoc.Field{Path: "rules[].memory", Kind: filedoc.Size, Default: "an equal share of `--memory`", Example: "16MiB",
		Text: "The part of `--memory` for the counts of this rule alone, at least `64KiB`. Its candidate has as much again. A rule with a single bucket has none."},
	filedoc.Field{Path: "rules[].concurrency", Kind: filedoc.Object, Example: "{limit: 10, ttl: 30s}",
		Text: "Leases: how much may be in flight at once."},
	filedoc.Field{Path: "rules[].concurrency.limit", Kind: filedoc.Number, Unit: "units", Values: []string{"auto"}, Least: 1, Most: maxUnits,
		Default: "`auto`", Example: "10", Text: "The units that may be held at once. `auto` adapts to the load."},
	filedoc.Field{Path: "rules[].concurrency.min", Kind: filedoc.Number, Unit: "units", Least: 1, Most: maxUnits, Default: "1", Example: "2",
		Text: "Lower bound of `auto`."},
	filedoc.Field{Path: "rules[].concurrency.max", Kind: filedoc.Number, Unit: "units", Least: 1, Most: maxUnits, Default: "1000", Example: "200",
		Text: "Upper bound of `auto`."},
	filedoc.Field{Path: "rules[].concurrency.queue", Kind: filedoc.Number, Unit: "requests", Most: maxQueue, Default: strconv.Itoa(DefaultQueue), Example: "20",
		Text: "How many requests may wait for leases of one key."},
	filedoc.Field{Path: "rules[].concurrency.max_wait", Kind: filedoc.Duration, Default: "`1h`", Example: "10s",
		Text: "Bounds the wait for a lease, > 0."},
	filedoc.Field{Path: "rules[].concurrency.ttl", Kind: filedoc.Duration, Default: DefaultTTL.String(), Example: "5m",
		Text: "How long a lease lasts unless it is renewed, if the request does not say: from 1ms to 24h."},
	filedoc.Field{Path: "rules[].concurrency.max_ttl", Kind: filedoc.Duration, Default: "ten times `ttl`", Example: "1h",
		Text: "The longest time that a request may ask for: from `ttl` to 240h."},
	filedoc.Field{Path: "rules[].mode", Kind: filedoc.Enum, Values: []string{"enforce", "shadow", "off"}, Default: "`enforce`", Example: "shadow",
		Text: "`shadow` decides and counts, but denies nothing. `off` ignores the rule."},
	filedoc.Field{Path: "rules[].away", Kind: filedoc.Enum, Values: []string{"deny", "allow", "share"}, Default: "`--store-away`, `--upstream-away`, `--peer-away`", Example: "deny",
		Text: "With `--store`, `--upstream` or `--peers`, how to decide while the store, the upstream or the owner of a key does not answer: `share` divides the limit by the number of instances."},
	filedoc.Field{Path: "rules[].unassigned", Kind: filedoc.Enum, Values: []string{"ask", "share", "deny"}, Default: "`ask`", Example: "share",
		Text: "With `--upstream` or `--store-leaf`, how to decide about a key before there is an assignment of it: `ask` the upstream or the store, take the `share` of one instance, or `deny`."},
	filedoc.Field{Path: "rules[].candidate", Kind: filedoc.Object, Example: "{rate: 500/s}",
		Text: "Another quota on trial: its decisions are counted beside those of the rule, without effect."},
), quota("rules[].candidate.", "The rate on trial.")...)...)

// quota describes the keys of a Quota.
func quota(in, what string) []filedoc.Field {
	return []filedoc.Field{
		{Path: in + "rate", Kind: filedoc.Rate, Example: "5/m",
			Text: "Tokens per period: `100/s`, `5/m`, `1000/h`, `10000/d`, `100/90s`, `50000/week`; the period from 1ms to 10 years. `200000/month` is for `algorithm: calendar`. " + what},
		{Path: in + "burst", Kind: filedoc.Number, Unit: "tokens", Least: 1, Most: maxCount, Default: "the count of the rate", Example: "10",
			Text: "The capacity of the token bucket, at least 1. Windows have none."},
		{Path: in + "algorithm", Kind: filedoc.Enum, Values: []string{"gcra", "fixed", "sliding", "calendar"}, Default: "`gcra`", Example: "fixed",
			Text: "`gcra` is a token bucket. `fixed` counts in windows that begin with the first request of a key; with `sliding`, the last window " +
				"fades out over the next. `calendar` counts in the minutes, hours, days, weeks (from Monday) or months of the `zone`; such windows " +
				"cannot be shared through `--store` or `--upstream`."},
		{Path: in + "zone", Kind: filedoc.Text, Default: "UTC", Example: "Europe/Berlin",
			Text: "With `algorithm: calendar`: the time zone of the calendar, by its name in the IANA database. A day begins when clocks there first show its " +
				"date: it has 23 or 25 hours when they change."},
	}
}

// Schema returns a JSON schema of a file of rules, for editors. Load checks more.
func Schema() map[string]any {
	s := filedoc.Schema(Reference)
	s["title"] = "Rules of weir serve"
	s["required"] = []string{"rules"}
	rule := s["properties"].(map[string]any)["rules"].(map[string]any)["items"].(map[string]any)
	var needs []any
	for _, some := range [][]string{{"key", "glob", "regex", "entries"}, {"rate", "concurrency"}} {
		var one []any
		for _, name := range some {
			one = append(one, map[string]any{"required": []string{name}})
		}
		needs = append(needs, map[string]any{"anyOf": one})
	}
	rule["allOf"] = needs
	rule["dependentRequired"] = map[string]any{"domain": []string{"entries"}}
	return s
}
