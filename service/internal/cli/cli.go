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

	"github.com/alecthomas/kong"
)

// A Program is a binary with commands.
type Program struct {
	Name, Description string
	// Commands returns a pointer to a struct with the commands, as kong reads them. A command has a method Run, which
	// gets a context.Context and Streams.
	Commands func() any
	Vars     kong.Vars    // for the help texts
	Groups   []kong.Group // of flags in the help of a command, in their order
	// TwoWords are the commands of two words: "load compare" runs the command load-compare.
	TwoWords []string
	// Hint adds to a problem with the command line of a command what it may have meant. If Hint is nil, it adds nothing.
	Hint func(command, problem string) string
}

// Common are the flags that every program has.
type Common struct {
	Version kong.VersionFlag `short:"v" env:"-" help:"Print the version, the commit and the Go version."`
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
	exit := -1
	parser := p.Parser(kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(Streams{stdout, stderr}))
	if len(args) == 0 || args[0] == "help" {
		args = append(args[min(1, len(args)):], "--help")
	}
	command, err := p.parse(parser, args)
	if exit >= 0 { // --help or --version
		return exit
	}
	if err != nil {
		name := p.Name
		if failed, ok := errors.AsType[*kong.ParseError](err); ok && failed.Context.Selected() != nil {
			name = failed.Context.Selected().FullPath()
		}
		fmt.Fprintf(stderr, "%s: %s (see %[1]s --help)\n", name, p.hinted(name, plain(err.Error())))
		return 2
	}
	name := command.Selected().FullPath()
	if err = checkBounds(command.Selected().Flags); err == nil {
		err = command.Run()
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		fmt.Fprintf(stderr, "%s: %v (see %[1]s --help)\n", name, err)
		return 2
	case errors.As(err, new(movedError)):
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 2
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
}

// Parser returns the parser of the program's command lines.
func (p *Program) Parser(more ...kong.Option) *kong.Kong {
	vars := kong.Vars{"version": p.Version()}
	parser, err := kong.New(p.Commands(), append([]kong.Option{
		kong.Name(p.Name), kong.Description(p.Description), kong.DefaultEnvars("WEIR"), vars.CloneWith(p.Vars),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.ValueFormatter(withOwnVariables),
		kong.ExplicitGroups(p.Groups), kong.PostBuild(p.arrange),
	}, more...)...)
	if err != nil {
		panic(err) // the command tree itself is wrong
	}
	return parser
}

// Accepts returns an error if a command line, without the program's name, is wrong.
func (p *Program) Accepts(args []string) error {
	parsed, err := p.parse(p.Parser(kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {})), args)
	if err != nil {
		return err
	}
	if parsed.Selected().Hidden {
		return fmt.Errorf("%s is hidden", parsed.Selected().Name)
	}
	return checkBounds(parsed.Selected().Flags)
}

// HasFlag reports whether the command of a command line has a flag, such as --help.
func (p *Program) HasFlag(args []string, flag string) bool {
	model, command := p.Parser().Model, p.joined(args)[0]
	for _, n := range append([]*kong.Node{model.Node}, model.Children...) {
		has := func(f *kong.Flag) bool { return "--"+f.Name == flag }
		if (n == model.Node || n.Name == command && !n.Hidden) && slices.ContainsFunc(n.Flags, has) {
			return true
		}
	}
	return false
}

func (p *Program) parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	return parser.Parse(longFlags(parser.Model, p.joined(args)))
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

// PrintJSON prints the result of --json.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
