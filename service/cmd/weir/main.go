// Command weir protects services from overload, and shows how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/service/internal/lab/sla"
)

type commands struct {
	Serve   serveCmd       `cmd:"" help:"Run the decision service: rate limits and leases for any number of services, over HTTP."`
	Top     topCmd         `cmd:"" help:"Watch weir serve in the terminal: which rules and keys are refused, and why."`
	Check   checkCmd       `cmd:"" help:"Check a file of rules, and show which limits a key gets."`
	Reset   resetCmd       `cmd:"" help:"Return all tokens of keys at weir serve, so that they have their whole limits again."`
	Proxy   proxyCmd       `cmd:"" help:"Protect an HTTP service: a reverse proxy that limits the requests in flight."`
	Origin  originCmd      `cmd:"" help:"Run a service to overload in experiments: a number of workers, a queue, and a service time."`
	Load    loadCmd        `cmd:"" help:"Generate load at a given rate over HTTP, gRPC, the Redis protocol, TCP or UDP, and measure latency from the intended start of each request."`
	Compare loadCompareCmd `cmd:"" name:"load-compare" help:"Compare two results of weir load. It can be written as weir load compare, too."`
	Sim     simCmd         `cmd:"" help:"Simulate scenario files in virtual time; prints tables and draws plots."`
	Arena   arenaCmd       `cmd:"" help:"Compare limit algorithms in many simulated scenarios: a leaderboard and a heat map."`
	Lab     labCmd         `cmd:"" help:"Repeat published experiments."`
	Demo    demoCmd        `cmd:"" help:"Show on a web page how a service collapses under load, and how a proxy prevents it."`

	Version kong.VersionFlag `short:"v" env:"-" help:"Print the version, the commit and the Go version."`
}

const description = `weir protects services from overload: it keeps the work in flight at what a service can bear (Little's law, N = X·R).`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs a command line and returns the exit status: 0 for success, 1 for a
// failure, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	exit := -1
	parser, err := kong.New(&commands{}, append(options(),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams{stdout, stderr}),
	)...)
	if err != nil {
		panic(err) // the command tree itself is wrong
	}
	if len(args) == 0 || args[0] == "help" {
		args = append(args[min(1, len(args)):], "--help")
	}
	command, err := parser.Parse(longFlags(parser.Model, joined(args)))
	if exit >= 0 { // --help or --version
		return exit
	}
	if err != nil {
		name := "weir"
		if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
			name = failed.Context.Selected().FullPath()
		}
		fmt.Fprintf(stderr, "%s: %s (see %[1]s --help)\n", name, hinted(name, plain(err.Error())))
		return 2
	}
	name := strings.TrimPrefix(command.Selected().FullPath(), "weir ")
	if err = checkBounds(command.Selected().Flags); err == nil {
		err = command.Run()
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "weir %s: %v (see weir %[1]s --help)\n", name, err)
		return 2
	default:
		fmt.Fprintf(stderr, "weir %s: %v\n", name, err)
		return 1
	}
}

func options() []kong.Option {
	return []kong.Option{
		kong.Name("weir"), kong.Description(description), kong.DefaultEnvars("WEIR"),
		kong.Vars{"version": version(buildInfo()), "policies": policyNames(), "kinds": randomKinds(), "rows": rowNames(), "quiet": sla.Quiet.String()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.ValueFormatter(withOwnVariables),
		kong.ExplicitGroups(groups), kong.PostBuild(arrange),
	}
}

// heys are the flags of weir load for those of hey and ab that it does not have. Of hey's -h2
// the parser reads -h first.
var heys = map[string]string{
	"-z": "--duration=TIME", "-q": "--rate=RPS, of all workers together", "-t": "--timeout=TIME", "-s": "--timeout=TIME", "-m": "--method=NAME",
	"-D": "--body=@FILE", "-p": "--body=@FILE", "-T": "--header=Content-Type:TYPE", "-A": "--header=Accept:TYPE", "-2": "--http2", "-o": "--report=FILE",
}

// wrongValues has what the parser says of a value that is wrong or missing, and plainer words for it.
var wrongValues = []struct {
	says  *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`expected .+ but got "EOL" \(<EOL>\)|missing value, expecting "[^"]*"`), "must have a value"},
	{regexp.MustCompile(`expected \S+ value but got ("[^"]*") \((?:short|long) flag\); perhaps try (\S+)\?`), "$1 is read as a flag: a value that begins with - is written $2"},
	{regexp.MustCompile(`expected duration but got ("[^"]*"): time: .*`), "$1: must be a time with its unit, such as 10s, 500ms or 2m"},
	{regexp.MustCompile(`expected a valid \d+ bit u?int but got ("[^"]*")`), "$1: must be a whole number"},
	{regexp.MustCompile(`expected an? (?:float|int|uint) but got ("[^"]*") \(string\)`), "$1: must be a number"},
	{regexp.MustCompile(`slog: level string ("[^"]*"): unknown name`), "$1: must be debug, info, warn or error"},
}

// plain says in plain words what is wrong with a command line.
func plain(problem string) string {
	for _, w := range wrongValues {
		problem = w.says.ReplaceAllString(problem, w.plain)
	}
	return problem
}

// positional says which flag has the value that some give as an argument.
var positional = map[string]string{
	"weir proxy": "the origin is --origin=URL", "weir serve": "the rules are --rules=PATH", "weir load": "several URLs are --targets=FILE",
}

// hinted adds to a problem what its command line may have meant.
func hinted(command, problem string) string {
	if value, ok := strings.CutPrefix(problem, "unknown flag "); ok && command == "weir load" {
		letter, _, _ := strings.Cut(value, ",")
		if flag := heys[letter]; flag != "" {
			return "unknown flag " + letter + ": that of hey or ab is " + flag
		}
	}
	if strings.HasPrefix(problem, "unexpected argument") && positional[command] != "" {
		return problem + ": " + positional[command]
	}
	return problem
}

// joined turns "load compare" into the name of that command, and "version" into the flag. A target is a URL, so it
// is never "compare".
func joined(args []string) []string {
	if args[0] == "version" {
		return append([]string{"--version"}, args[1:]...)
	}
	if len(args) > 1 && args[0] == "load" && args[1] == "compare" {
		return append([]string{"load-compare"}, args[2:]...)
	}
	return args
}

// longFlags turns -x=value, as GoCC's command lines have it, into --name=value. kong
// would read it as -x with the value "=value".
func longFlags(model *kong.Application, args []string) []string {
	args = slices.Clone(args)
	for _, command := range model.Children {
		if command.Name != args[0] {
			continue
		}
		for _, f := range command.Flags {
			for i, arg := range args {
				if value, ok := strings.CutPrefix(arg, "-"+string(f.Short)+"="); ok && f.Short != 0 {
					args[i] = "--" + f.Name + "=" + value
				}
			}
		}
	}
	return args
}

// streams are the output of a command: results on Out, everything else on Err.
type streams struct{ Out, Err io.Writer }

// A usageError reports a wrong command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }
