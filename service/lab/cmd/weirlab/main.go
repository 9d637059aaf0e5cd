// Command weirlab shows overload, generates load, simulates services and compares limits.
package main

import (
	"strings"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/lab/internal/convert"
	"github.com/weir-go/weir/service/lab/internal/sla"
)

var program = &cli.Program{
	Name:        "weirlab",
	Description: `weirlab studies overload: it shows it live, generates load, and runs the limits of weir in virtual time.`,
	Commands: []cli.Command{
		{Name: "demo", Help: "Show on a web page how a service collapses under load, and how a proxy prevents it.", Detail: demoDetail, New: func() cli.Runner { return new(demoCmd) }},
		{Name: "load", Help: "Generate load at a given rate over HTTP, gRPC, the Redis protocol, TCP or UDP, and measure latency from the intended start of each request.", Detail: loadDetail, New: func() cli.Runner { return new(loadCmd) }},
		{Name: "load-compare", Help: "Compare two results of weirlab load. It can be written as weirlab load compare, too.", New: func() cli.Runner { return new(loadCompareCmd) }},
		{Name: "origin", Help: "Run a service to overload in experiments: a number of workers, a queue, and a service time.", New: func() cli.Runner { return new(originCmd) }},
		{Name: "sim", Help: "Simulate scenario files in virtual time; prints tables and draws plots.", New: func() cli.Runner { return new(simCmd) }},
		{Name: "advise", Help: "Find the capacity of a service, and what went wrong, in a recording of its requests, and recommend a limit, a queue, a time-out, a retry budget and a number of instances.", Detail: adviseDetail, New: func() cli.Runner { return new(adviseCmd) }},
		{Name: "replay", Help: "Replay a recording in virtual time with other limits: what would have happened.", Detail: replayDetail, New: func() cli.Runner { return new(replayCmd) }},
		{Name: "convert", Help: "Convert recordings to CSV, and CSV, access logs of nginx and Envoy, and the output of k6 to recordings, for weirlab advise.", Detail: convertDetail, New: func() cli.Runner { return new(convertCmd) }},
		{Name: "arena", Help: "Compare limit algorithms in many simulated scenarios: a leaderboard and a heat map.", New: func() cli.Runner { return new(arenaCmd) }},
		{Name: "sla", Help: "Measure whether a service meets its service-level agreement without a limit, with four rate limits, and with Auto, at 25 to 600 requests a second.", New: func() cli.Runner { return new(slaCmd) }},
	},
	Vars:     map[string]string{"policies": policyNames(), "kinds": randomKinds(), "rows": rowNames(), "quiet": sla.Quiet.String(), "nginx": convert.DefaultNginx},
	Groups:   groups,
	TwoWords: []string{"load compare"},
	Hint:     hinted,
}

func main() { program.Main() }

// groups are the groups of flags in the help of a command, in their order.
var groups = []cli.Group{
	{Key: "pace", Title: "When requests are sent:"},
	{Key: "request", Title: "What is sent:"},
	{Key: "tls", Title: "TLS:"},
	{Key: "bounds", Title: "Bounds of connections, memory and time:"},
	{Key: "setting", Title: "The upstream:"},
	{Key: "tuned", Title: "The tuned limits:"},
	{Key: "agreement", Title: "The agreement:"},
	{Key: "thresholds", Title: "Thresholds; the exit status is 1 if one is not kept:"},
	{Key: "output", Title: "Output:"},
	{Key: "headless", Title: "Without a page:"},
}

// heys are the flags of weirlab load for those of hey and ab that it does not have. Of hey's -h2
// the parser reads -h first.
var heys = map[string]string{
	"-z": "--duration=TIME", "-q": "--rate=RPS, of all workers together", "-t": "--timeout=TIME", "-s": "--timeout=TIME", "-m": "--method=NAME",
	"-D": "--body=@FILE", "-p": "--body=@FILE", "-T": "--header=Content-Type:TYPE", "-A": "--header=Accept:TYPE", "-2": "--http2", "-o": "--report=FILE",
}

// hinted adds to a problem what its command line may have meant.
func hinted(command, problem string) string {
	if command != "weirlab load" {
		return problem
	}
	if value, ok := strings.CutPrefix(problem, "unknown flag "); ok {
		letter, _, _ := strings.Cut(value, ",")
		if flag := heys[letter]; flag != "" {
			return "unknown flag " + letter + ": that of hey or ab is " + flag
		}
	}
	if strings.HasPrefix(problem, "unexpected argument") {
		return problem + ": several URLs are --targets=FILE"
	}
	return problem
}
