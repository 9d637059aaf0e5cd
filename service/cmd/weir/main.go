// Command weir protects services from overload.
package main

import (
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
)

var program = &cli.Program{
	Name: "weir",
	Description: `weir protects services from overload: it keeps the work in flight at what a service can bear (Little's law, N = X·R).

weirlab, a binary of its own, shows overload, generates load and simulates.`,
	Commands: []cli.Command{
		{Name: "serve", Help: "Run the decision service: rate limits and leases for any number of services, over HTTP.", New: func() cli.Runner { return new(serveCmd) }},
		{Name: "top", Help: "Watch weir serve or weir proxy in the terminal: what is refused, by which limits, and why.", New: func() cli.Runner { return new(topCmd) }},
		{Name: "check", Help: "Check a file of rules, and show which limits a key gets.", Detail: checkDetail, New: func() cli.Runner { return new(checkCmd) }},
		{Name: "reset", Help: "Return all tokens of keys at weir serve, so that they have their whole limits again.", New: func() cli.Runner { return new(resetCmd) }},
		{Name: "proxy", Help: "Protect an HTTP service: a reverse proxy that limits the requests in flight.", New: func() cli.Runner { return new(proxyCmd) }},
	},
	Groups:   groups,
	Moved:    moved,
	Replaced: map[string]string{"admin-auth": "--admin-tokens FILE, such as the one of --tokens", "no-ratelimit-fields": "--fields none"},
	Hint:     hinted,
}

func main() { program.Main() }

// groups are the groups of flags in the help of a command, in their order.
var groups = []cli.Group{
	{Key: "answers", Title: "Answers to callers:"},
	{Key: "limit", Title: "How the limit adapts:"},
	{Key: "store", Title: "Share limits between instances, in Redis or Valkey:"},
	{Key: "peers", Title: "Share limits between instances, without a store:"},
	{Key: "upstream", Title: "Limits of another weir serve, by the parts that it assigns to this process:"},
	{Key: "leaves", Title: "Assign parts of the limits to leaves:"},
	{Key: "decisions", Title: "Record decisions, to try other rules on them:"},
	{Key: "against", Title: "Try the rules on recorded requests:"},
	{Key: "envoy", Title: "Envoy's rate-limit service, and files of envoyproxy/ratelimit:"},
	{Key: "gocc", Title: "Limits without --rules, and compatibility with GoCC:"},
	{Key: "tls", Title: "TLS:"},
	{Key: "health", Title: "Health checks of origins:"},
	{Key: "origin", Title: "TLS to origins:"},
	{Key: "front", Title: "Proxies in front of this one:"},
	{Key: "operators", Title: "The listener of operators:"},
	{Key: "recording", Title: "Recording of requests:"},
	{Key: "bounds", Title: "Bounds of connections, memory and time:"},
	{Key: "stop", Title: "Stop and restart:"},
	{Key: "log", Title: "Log:"},
	{Key: "benchmark", Title: "Measure the speed of decisions, and end:"},
}

// positional says which flag has the value that some give as an argument.
var positional = map[string]string{
	"weir proxy": "the origin is --origin=URL", "weir serve": "the rules are --rules=PATH",
}

// hinted adds to a problem what its command line may have meant.
func hinted(command, problem string) string {
	if strings.HasPrefix(problem, "unexpected argument") && positional[command] != "" {
		return problem + ": " + positional[command]
	}
	return problem
}
