package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/weir-go/weir/service/internal/spelling"
)

// A line is a command line that has been read.
type line struct {
	common
	command *Command // nil if there is none
	run     Runner
	flags   []*Flag // those of every command, then those of the command
}

// parse reads a command line.
func (p *Program) parse(args []string) (*line, error) {
	args = p.joined(args)
	read := new(line)
	read.flags = p.flags(&read.common)
	var names []string
	at := max(0, slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }))
	for _, c := range p.all() {
		names = append(names, c.Name)
	}
	if read.command = p.command(args[at]); read.command != nil {
		read.run, args = read.command.New(), slices.Concat(args[:at], args[at+1:])
		read.flags = append(read.flags, p.flags(read.run)...)
	}
	rest, err := read.parseFlags(args, p.Replaced)
	switch {
	case err != nil:
		return read, err
	case read.run == nil && len(rest) > 0:
		return read, Usagef("unexpected argument %s%s", rest[0], meant(rest[0], names, ""))
	case read.Help || read.Version:
		return read, nil
	case read.run != nil:
		return read, cmp.Or(p.checkReplaced(), read.setArguments(rest), read.setDefaults(), checkBounds(read.flags))
	default:
		return read, Usagef("expected one of %s", strings.Join(names, ", "))
	}
}

// checkReplaced returns an error if the variable of a flag of an earlier version is set.
func (p *Program) checkReplaced() error {
	for _, flag := range slices.Sorted(maps.Keys(p.Replaced)) {
		if _, set := os.LookupEnv(Variable(flag)); set {
			return Usagef("$%s: --%s is now %s", Variable(flag), flag, p.Replaced[flag])
		}
	}
	return nil
}

// parseFlags sets the flags on the command line, and returns the arguments between them. It is told the flags of earlier versions.
func (l *line) parseFlags(args []string, replaced map[string]string) (rest []string, err error) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	var names []string
	for _, f := range l.flags {
		if f.isArgument() {
			continue
		}
		names = append(names, f.Name)
		flag := set.VarPF(f, f.Name, f.tag.Get("short"), "")
		if f.IsBool() {
			flag.NoOptDefVal = "true"
		}
		if alias := f.tag.Get("aliases"); alias != "" {
			set.Var(f, alias, "")
		}
	}
	if err := l.separateValue(args); err != nil {
		return nil, err
	}
	err = set.ParseAll(args, func(flag *pflag.Flag, text string) error {
		f := flag.Value.(*Flag)
		if len(text) > 1 && text[0] == '-' && slices.Contains(args, text) {
			return Usagef("--%s: %q is read as a flag: a value that begins with - is written --%[1]s=%[2]q", f.Name, text)
		}
		return f.set(text, "")
	})
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		err = Usagef("--%s: must have a value", missing.GetFlag().Name)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, dashes := unknown.GetSpecifiedName(), "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		if now := replaced[name]; now != "" {
			err = Usagef("unknown flag %s%s: now %s", dashes, name, now)
		} else {
			err = Usagef("unknown flag %s%s%s", dashes, name, meant(name, names, "--"))
		}
	}
	return set.Args(), err
}

// separateValue returns an error for a flag without a value that has one behind it, which would be an argument.
func (l *line) separateValue(args []string) error {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if f := flagged(l.flags, arg); f != nil && f.IsBool() && i+1 < len(args) && (args[i+1] == "true" || args[i+1] == "false") {
			return Usagef("--%s: its value is written --%[1]s=%s", f.Name, args[i+1])
		}
	}
	return nil
}

// ofKubernetes are the variables that Kubernetes sets for a Service with a name that begins with weir.
var ofKubernetes = regexp.MustCompile(`^WEIR(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$`)

// strangeVariables returns what to say about each variable that looks like one of a flag, and is not. Shells run completion
// and man at their start: they say nothing.
func (p *Program) strangeVariables(command *Command) (said []string) {
	if !slices.ContainsFunc(p.Commands, func(c Command) bool { return c.Name == command.Name }) {
		return nil
	}
	known := []string{"WEIR_VERSION"} // an image may have it
	var near []string
	for _, c := range p.Commands {
		for _, f := range p.Flags(c) {
			known = append(known, f.Envs...)
		}
	}
	for _, name := range known {
		if own, found := strings.CutPrefix(name, "WEIR_"); found {
			near = append(near, own)
		}
	}
	for _, setting := range os.Environ() {
		name, _, _ := strings.Cut(setting, "=")
		own, found := strings.CutPrefix(name, "WEIR_")
		if !found || slices.Contains(known, name) || ofKubernetes.MatchString(name) {
			continue
		}
		said = append(said, fmt.Sprintf("$%s is not a variable of %s%s", name, p.Name, meant(own, near, "WEIR_")))
	}
	slices.Sort(said)
	return said
}

// setDefaults sets the flags that are not on the command line.
func (l *line) setDefaults() error {
	var missing []string
	for _, f := range l.flags {
		for _, name := range f.Envs {
			if text, ok := os.LookupEnv(name); ok && !f.given {
				if err := f.set(text, " (from $"+name+")"); err != nil {
					return err
				}
			}
		}
		switch {
		case f.given:
		case f.has("required"):
			missing = append(missing, f.summary())
		case f.Default != "":
			if err := f.set(f.Default, ""); err != nil {
				return err
			}
		}
	}
	if len(missing) > 0 {
		return Usagef("missing flags: %s", strings.Join(missing, ", "))
	}
	return nil
}

func (l *line) setArguments(rest []string) error {
	var missing []string
	for _, f := range slices.DeleteFunc(slices.Clone(l.flags), func(f *Flag) bool { return !f.isArgument() }) {
		n := min(1, len(rest))
		if f.isList() {
			n = len(rest)
		}
		if n == 0 && !f.has("optional") {
			missing = append(missing, f.summary())
		}
		for _, text := range rest[:n] {
			if err := f.set(text, ""); err != nil {
				return err
			}
		}
		rest = rest[n:]
	}
	switch {
	case len(rest) > 0:
		return Usagef("unexpected argument %s", rest[0])
	case len(missing) > 0:
		return Usagef("expected %q", strings.Join(missing, " "))
	}
	return nil
}

// set reads a value. from says where it is from, for the error.
func (f *Flag) set(text, from string) error {
	f.given = true
	if err := f.Set(text); err != nil {
		return Usagef("--%s: %v%s", f.Name, err, from)
	}
	return nil
}

// meant suggests the name that is closest to a misspelt one.
func meant(misspelt string, names []string, dashes string) string {
	if name := spelling.Closest(misspelt, names); name != "" {
		return fmt.Sprintf(", did you mean %q?", dashes+name)
	}
	return ""
}

// Accepts returns an error if a command line, without the program's name, is wrong.
func (p *Program) Accepts(args []string) error {
	if to := p.Moved[args[0]]; to != "" {
		return fmt.Errorf("now %s", to)
	}
	_, err := p.parse(args)
	return err
}

// HasFlag reports whether the command of a command line has a flag, such as --help.
func (p *Program) HasFlag(args []string, flag string) bool {
	read, _ := p.parse(args)
	return slices.ContainsFunc(read.flags, func(f *Flag) bool { return "--"+f.Name == flag })
}
