// Package cli runs the command lines of a binary: it reads flags and environment variables, prints help texts and
// errors, and returns exit statuses.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// A Program is a binary with commands.
type Program struct {
	Name, Description string
	Commands          []Command
	Vars              map[string]string // for the help texts: ${name} is replaced by its value
	Groups            []Group           // of flags in the help of a command, in their order
	// TwoWords are the commands of two words: "load compare" runs the command load-compare.
	TwoWords []string
	// Moved has commands that another program has now, and what to run instead.
	Moved map[string]string
	// Replaced has flags of earlier versions, and what to write in place of each. They and their variables are errors: a
	// setting that is ignored may have been one of safety.
	Replaced map[string]string
	// Hint adds to a problem with the command line of a command what it may have meant. If Hint is nil, it adds nothing.
	Hint func(command, problem string) string
}

// A Command is a command of a program.
type Command struct {
	Name, Help string
	Detail     string // more paragraphs of the help text
	// New returns a pointer to a struct. A field with a tag help is a flag, or with a tag arg an argument; a field with a
	// tag embed has further flags. Further tags of a flag are name, short, aliases, env (the environment variables, in
	// place of the one that Variable returns), default, enum, least and most (its values), choices (some values, for
	// completion), needs (another flag, without which this one has no effect), sep ("none": commas do not separate values),
	// placeholder (FILE, PATH and DIR complete), group, required, optional and hidden.
	New func() Runner
}

// A Runner runs a command with the flags in its fields.
type Runner interface {
	Run(context.Context, Streams) error
}

// common has the flags of every command.
type common struct {
	Help    bool `short:"h" env:"-" help:"Show this help. Each flag is also an environment variable: --max-wait is $WEIR_MAX_WAIT."`
	Version bool `short:"v" env:"-" help:"Print the version, the commit and the Go version."`
}

// Streams are the output of a command: results on Out, everything else on Err.
type Streams struct{ Out, Err io.Writer }

// Main runs the command line of the process, and ends it.
func (p *Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run runs a command line and returns the exit status: 0 for success, 1 for a failure, 2 for a wrong command line.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || args[0] == "help" {
		args = append(args[min(1, len(args)):], "--help")
	}
	if to := p.Moved[args[0]]; to != "" {
		fmt.Fprintf(stderr, "%s %s: now %s\n", p.Name, args[0], to)
		return 2
	}
	if args[0] == "__complete" && len(args) > 1 { // a script of weir completion asks
		p.printCandidates(stdout, args[1], args[2:])
		return 0
	}
	read, err := p.parse(args)
	name := p.Name
	if read.command != nil {
		name += " " + read.command.Name
	}
	switch {
	case err != nil && p.Hint != nil:
		err = usageError(p.Hint(name, err.Error()))
	case err != nil:
	case read.Help:
		p.help(stdout, read)
	case read.Version:
		fmt.Fprintln(stdout, p.Version())
	default:
		for _, said := range p.strangeVariables(read.command) {
			fmt.Fprintf(stderr, "%s: warning: %s\n", name, said)
		}
		if err = checkNeeds(read.flags); err == nil {
			err = read.run.Run(ctx, Streams{stdout, stderr})
		}
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "%s: %v (see %[1]s --help)\n", name, err)
		return 2
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
}

// all returns the commands of the program, and those of every program.
func (p *Program) all() []Command {
	return append(slices.Clip(p.Commands),
		Command{Name: "completion", Help: "Print a script that completes command lines in a shell.", Detail: strings.ReplaceAll(completionDetail, "NAME", p.Name),
			New: func() Runner { return &completionCmd{program: p} }},
		Command{Name: "man", Help: "Print the manual page of the program or of a command.", Detail: strings.ReplaceAll(manDetail, "NAME", p.Name),
			New: func() Runner { return &manCmd{program: p} }})
}

// command returns the command with a name; nil if there is none.
func (p *Program) command(name string) *Command {
	all := p.all()
	if at := slices.IndexFunc(all, func(c Command) bool { return c.Name == name }); at >= 0 {
		return &all[at]
	}
	return nil
}

// joined turns two words into the name of their command, and "version" into the flag.
func (p *Program) joined(args []string) []string {
	if args[0] == "version" {
		return append([]string{"--version"}, args[1:]...)
	}
	if len(args) > 1 && slices.Contains(p.TwoWords, args[0]+" "+args[1]) {
		return append([]string{args[0] + "-" + args[1]}, args[2:]...)
	}
	return args
}

// PrintJSON prints the result of --json.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
