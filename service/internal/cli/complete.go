package cli

import (
	"context"
	"embed"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// completionCmd prints the script of a shell. The script asks the program at each completion, so that it fits any version.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`

	program *Program
}

const completionDetail = `For the shell that runs:

	source <(NAME completion bash)
	source <(NAME completion zsh)
	NAME completion fish | source

The same line in ~/.bashrc, in ~/.zshrc after compinit, or in ~/.config/fish/config.fish is for each shell that starts. Packages of a release bring the scripts.`

//go:embed shell
var shells embed.FS

// Run prints the script.
func (c *completionCmd) Run(_ context.Context, std Streams) error {
	script, err := shells.ReadFile("shell/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = io.WriteString(std.Out, strings.ReplaceAll(string(script), "NAME", c.program.Name))
	return err
}

// What a shell completes by itself, in place of values.
const (
	files       = ":files"
	directories = ":dirs"
)

// A candidate is a word that may replace the last one of a command line.
type candidate struct{ word, about string }

// printCandidates prints what may replace the last word of a command line, in the format of a shell's script.
func (p *Program) printCandidates(w io.Writer, shell string, words []string) {
	if shell == "bash" {
		words = joinBroken(words)
	}
	found, prefix := p.complete(words)
	for _, c := range found {
		switch {
		case c.word == files || c.word == directories || shell == "bash":
			fmt.Fprintln(w, c.word)
		case shell == "zsh":
			fmt.Fprintf(w, "%s:%s\n", strings.ReplaceAll(c.word, ":", `\:`), c.about)
		default:
			fmt.Fprintf(w, "%s%s\t%s\n", prefix, c.word, c.about)
		}
	}
}

// joinBroken joins the words that bash breaks at = and others: --rules = a.yaml.
func joinBroken(words []string) (joined []string) {
	again := false
	for i, word := range words {
		broken := word != "" && strings.Trim(word, "=:@") == ""
		if i > 0 && (broken || again) {
			joined[len(joined)-1] += word
		} else {
			joined = append(joined, word)
		}
		again = broken
	}
	return joined
}

// complete returns what may replace the last word of a command line without the program's name. If the word is a flag with
// its value, the prefix is the flag, and the candidates are values.
func (p *Program) complete(words []string) (found []candidate, prefix string) {
	if len(words) == 0 {
		return nil, ""
	}
	before, word := words[:len(words)-1], words[len(words)-1]
	help := len(before) == 1 && (before[0] == "help" || before[0] == "man" && !strings.HasPrefix(word, "-"))
	var command *Command
	if len(before) > 0 && !help {
		before = p.joined(before)
		command = p.command(before[0])
	}
	switch {
	case command != nil:
		found, prefix = p.completeCommand(command, before[1:], word)
	case help || len(before) == 0 && !strings.HasPrefix(word, "-"):
		for _, c := range p.all() {
			found = append(found, candidate{c.Name, sentence(c.Help)})
		}
	case len(before) == 0:
		found = names(p.flags(new(common)))
	}
	return slices.DeleteFunc(found, func(c candidate) bool {
		return c.word != files && c.word != directories && !strings.HasPrefix(c.word, strings.TrimPrefix(word, prefix))
	}), prefix
}

// completeCommand completes the last word of the command line of a command.
func (p *Program) completeCommand(command *Command, before []string, word string) (found []candidate, prefix string) {
	all := slices.Concat(p.flags(new(common)), p.flags(command.New()))
	var arguments, flags []*Flag
	for _, f := range all {
		if f.isArgument() {
			arguments = append(arguments, f)
		} else {
			flags = append(flags, f)
		}
	}
	var open *Flag // its value is the next word
	given, onlyArguments := 0, false
	for _, w := range before {
		name, _, valued := strings.Cut(w, "=")
		f := flagged(flags, name)
		switch {
		case open != nil:
			open = nil
		case onlyArguments || !strings.HasPrefix(w, "-") || w == "-":
			given++
		case w == "--":
			onlyArguments = true
		case f != nil:
			f.given = true
			if !valued && !f.IsBool() {
				open = f
			}
		}
	}
	name, _, valued := strings.Cut(word, "=")
	switch f := flagged(flags, name); {
	case open != nil:
		return open.values(), ""
	case onlyArguments:
	case valued && f != nil:
		return f.values(), name + "="
	case strings.HasPrefix(word, "-") || word == "" && len(arguments) == 0:
		return names(slices.DeleteFunc(flags, func(f *Flag) bool { return f.Hidden || f.given && !f.isList() })), ""
	}
	for i, f := range arguments {
		if i == given || i == len(arguments)-1 && f.isList() {
			return f.values(), ""
		}
	}
	return nil, ""
}

// flagged returns the flag of --name or -n.
func flagged(flags []*Flag, word string) *Flag {
	at := slices.IndexFunc(flags, func(f *Flag) bool {
		short := f.tag.Get("short")
		return word == "--"+f.Name || short != "" && word == "-"+short
	})
	if at < 0 {
		return nil
	}
	return flags[at]
}

func names(flags []*Flag) (found []candidate) {
	for _, f := range flags {
		found = append(found, candidate{"--" + f.Name, sentence(f.Help)})
	}
	return found
}

// values returns the known values of a flag or an argument.
func (f *Flag) values() (found []candidate) {
	values := strings.Split(f.choices, ",")
	if _, level := f.value.Interface().(slog.Level); level {
		values = []string{"debug", "info", "warn", "error"}
	}
	switch f.tag.Get("placeholder") {
	case "FILE", "PATH":
		values = []string{files}
	case "DIR":
		values = []string{directories}
	}
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			found = append(found, candidate{word: v})
		}
	}
	return found
}

// sentence returns the first sentence of a help text.
func sentence(text string) string {
	text, _, _ = strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.TrimSuffix(text, ".")
}
