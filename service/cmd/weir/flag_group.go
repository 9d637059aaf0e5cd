package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// groups are the groups of flags in the help of a command, in their order. Flags without a group come first:
// a user needs them first.
var groups = []kong.Group{
	{Key: "pace", Title: "When requests are sent:"},
	{Key: "request", Title: "What is sent:"},
	{Key: "answers", Title: "Answers to callers:"},
	{Key: "limit", Title: "How the limit adapts:"},
	{Key: "store", Title: "Share limits between instances, in Redis or Valkey:"},
	{Key: "peers", Title: "Share limits between instances, without a store:"},
	{Key: "upstream", Title: "Limits of another weir serve, by the parts that it assigns to this process:"},
	{Key: "leaves", Title: "Assign parts of the limits to leaves:"},
	{Key: "envoy", Title: "Envoy's rate-limit service, and files of envoyproxy/ratelimit:"},
	{Key: "gocc", Title: "Limits without --rules, and compatibility with GoCC:"},
	{Key: "tls", Title: "TLS:"},
	{Key: "health", Title: "Health checks of origins:"},
	{Key: "origin", Title: "TLS to origins:"},
	{Key: "front", Title: "Proxies in front of this one:"},
	{Key: "operators", Title: "The listener of operators:"},
	{Key: "bounds", Title: "Bounds of connections, memory and time:"},
	{Key: "stop", Title: "Stop and restart:"},
	{Key: "log", Title: "Log:"},
	{Key: "setting", Title: "The upstream:"},
	{Key: "tuned", Title: "The tuned limits:"},
	{Key: "agreement", Title: "The agreement:"},
	{Key: "thresholds", Title: "Thresholds; the exit status is 1 if one is not kept:"},
	{Key: "output", Title: "Output:"},
	{Key: "headless", Title: "Without a page:"},
	{Key: "benchmark", Title: "Measure the speed of decisions, and end:"},
}

// arrange sorts the flags of each command by their groups.
func arrange(k *kong.Kong) error {
	k.Model.HelpFlag.Help = "Show this help. Each flag is also an environment variable: --max-wait is $WEIR_MAX_WAIT."
	order := func(f *kong.Flag) int {
		if f.Group == nil {
			return -1
		}
		return slices.IndexFunc(groups, func(g kong.Group) bool { return g.Key == f.Group.Key })
	}
	return kong.Visit(k.Model, func(n kong.Visitable, next kong.Next) error {
		if command, ok := n.(*kong.Node); ok {
			slices.SortStableFunc(command.Flags, func(a, b *kong.Flag) int { return order(a) - order(b) })
		}
		return next(nil)
	})
}

// withOwnVariables returns the help of a flag, with the environment variables that its name does not tell.
func withOwnVariables(v *kong.Value) string {
	var own []string
	for _, name := range v.Tag.Envs {
		if name != variable(v.Name) {
			own = append(own, "$"+name)
		}
	}
	if len(own) == 0 {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(own, ", ") + ")."
}

// variable returns the environment variable for a flag.
func variable(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
