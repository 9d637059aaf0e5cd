// Command weir protects services from overload, and shows how.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/service/internal/lab/sla"
)

type commands struct {
	Serve  serveCmd  `cmd:"" help:"Decide for all services how much each key may have: rate limits and leases over HTTP."`
	Top    topCmd    `cmd:"" help:"Watch weir serve in the terminal: who is refused, by which rule, and why."`
	Check  checkCmd  `cmd:"" help:"Check files of rules, and explain what keys get."`
	Proxy  proxyCmd  `cmd:"" help:"Protect an origin: a reverse proxy that limits its work in flight."`
	Origin originCmd `cmd:"" help:"A service to break: workers, a queue, and a service time."`
	Load   loadCmd   `cmd:"" help:"An honest client: offers load and tells what came back."`
	Sim    simCmd    `cmd:"" help:"What would happen: simulates scenario files, with tables and pictures."`
	Arena  arenaCmd  `cmd:"" help:"Which limit is best: every policy under the same load, a leaderboard and a heat map."`
	Lab    labCmd    `cmd:"" help:"Experiments of others, measured again."`
	Demo   demoCmd   `cmd:"" help:"Watch a service collapse under load, and a proxy save it."`
}

const description = `weir keeps a service's work in flight at what the service can bear (Little's law, N = X·R).

Every flag can also be set as an environment variable: --max-wait is WEIR_MAX_WAIT.`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process: it returns the exit status. 0: done; 1: the
// work failed; 2: the command line was wrong.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	exit := -1
	parser, err := kong.New(&commands{}, append(options(),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams{stdout, stderr}),
	)...)
	if err != nil {
		panic(err) // the command tree itself is wrong
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(longFlags(parser.Model, args))
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v (see weir --help)\n", err)
		return 2
	}
	name := strings.TrimPrefix(command.Selected().FullPath(), "weir ")
	switch err := command.Run(); {
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
		kong.Vars{"policies": policyNames(), "rows": rowNames(), "quiet": sla.Quiet.String()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}
}

// longFlags writes -x=value as --name=value, for kong would take it for -x with
// the value =value. It is a common way to write them, and GoCC's.
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

// streams are where a command writes: results to Out, all else to Err.
type streams struct{ Out, Err io.Writer }

// A usageError is a command line that cannot be carried out as it is.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }
