package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/internal/pagetest"
	"github.com/weir-go/weir/service/internal/daemon"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

const docs = "../../../docs/"

var update = flag.Bool("update", false, "write the flags into docs/defaults.md")

func model(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := kong.New(&commands{}, append(options(), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))...)
	fatal(t, err)
	return parser
}

// docs/defaults.md has the default of each flag, in the groups of the help texts, and the bounds of servers that no flag sets.
func TestDefaults(t *testing.T) {
	var page strings.Builder
	rows := 0
	for _, command := range model(t).Model.Leaves(true) {
		var groups []string
		tables := map[string]string{}
		for _, f := range command.Flags {
			is, byDefault := about(f)
			if f.Hidden || byDefault == "" {
				continue
			}
			group := ""
			if f.Group != nil {
				group = f.Group.Title
			}
			if tables[group] == "" {
				groups = append(groups, group)
				tables[group] = "| flag | default | is |\n|---|---|---|\n"
			}
			tables[group] += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, byDefault, strings.ReplaceAll(is, "|", `\|`))
			rows++
		}
		if len(groups) > 0 {
			fmt.Fprintf(&page, "### %s\n\n", command.FullPath())
		}
		for _, group := range groups {
			if group != "" {
				fmt.Fprintf(&page, "%s\n\n", strings.TrimSuffix(group, ":"))
			}
			fmt.Fprintf(&page, "%s\n", tables[group])
		}
	}
	if rows < 80 {
		t.Errorf("%d flags", rows)
	}
	srv := httpserve.New(nil, slog.New(slog.DiscardHandler))
	fmt.Fprintf(&page, `### HTTP servers

| bound | value | of |
|---|---|---|
| header of a request | %d KiB | listeners of operators, weir origin, weir demo |
| header of a request | %d KiB, with the default of --max-key | weir serve --listen |
| time for a header | %v | all but weir serve --listen and weir proxy --listen, which have flags |
| time without a request on a connection | %v | all but weir proxy --listen |
| requests at a time on a connection of HTTP/2 | %d | weir serve --listen, weir proxy --listen |
`, srv.MaxHeaderBytes>>10, daemon.MaxHeader(httpapi.DefaultMaxKey)>>10, srv.ReadHeaderTimeout, srv.IdleTimeout, httpserve.MaxStreams)
	pagetest.Keep(t, docs+"defaults.md", "commands", page.String(), *update)
}

// about returns the first sentence of a flag's help text, and its default, which is at the end of the text.
func about(f *kong.Flag) (is, byDefault string) {
	if f.HasDefault && f.Default != "" {
		byDefault = "`" + f.Default + "`"
	}
	is = f.Help
	if m := inHelp.FindStringSubmatch(f.Help); m != nil && !f.IsBool() {
		is = m[1]
		if byDefault == "" {
			byDefault = m[2]
		}
	}
	is, _, _ = strings.Cut(is, ". ")
	return strings.TrimSuffix(is, "."), byDefault
}

var inHelp = regexp.MustCompile(`^(.*) \(([^()]*[^.()])\)\.?$`)

var (
	shell   = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	inline  = regexp.MustCompile("`(?:bin/)?(weir [^`]*)`")
	command = regexp.MustCompile(`(?:^|[;|&(]|\bdo|=\S+)\s*(?:bin/)?weir ([a-z].*)`)
	long    = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// The command lines of README and docs are right: weir accepts those of the blocks, and knows the flags of the others.
func TestCommandLines(t *testing.T) {
	names, err := filepath.Glob(docs + "*.md")
	fatal(t, err)
	lines := 0
	for _, name := range append(names, docs+"../README.md", docs+"../deploy/README.md") {
		file, err := os.ReadFile(name)
		fatal(t, err)
		text := string(file)
		for _, block := range shell.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				for _, m := range command.FindAllStringSubmatch(strings.TrimSuffix(line, "\n"), -1) {
					lines++
					if err := accepts(t, words(m[1])); err != nil {
						t.Errorf("%s: weir %s: %v", name, m[1], err)
					}
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			lines++
			for _, f := range long.FindAllString(m[1], -1) {
				if !hasFlag(model(t).Model, strings.Fields(m[1])[1], f) {
					t.Errorf("%s: `%s`: there is no flag %s", name, m[1], f)
				}
			}
		}
	}
	if lines < 100 {
		t.Errorf("%d command lines", lines)
	}
}

// accepts parses a command line, as run does.
func accepts(t *testing.T, args []string) error {
	t.Helper()
	if len(args) == 0 || args[0] == "help" {
		return nil
	}
	parser := model(t)
	parsed, err := parser.Parse(longFlags(parser.Model, joined(args)))
	if err != nil {
		return err
	}
	return checkBounds(parsed.Selected().Flags)
}

func hasFlag(app *kong.Application, command, flag string) bool {
	for _, c := range append([]*kong.Node{app.Node}, app.Children...) {
		if c.Name != command && c != app.Node {
			continue
		}
		for _, nested := range append([]*kong.Node{c}, c.Children...) {
			for _, f := range nested.Flags {
				if "--"+f.Name == flag {
					return true
				}
			}
		}
	}
	return flag == "--help"
}

// words splits the first command of a line of a shell. Variables are numbers.
func words(line string) (args []string) {
	var word strings.Builder
	quote, some := rune(0), false
	for _, r := range shellVariable.ReplaceAllString(line, "1") + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, some = r, true
		case r == ' ':
			if word.Len() > 0 || some {
				args = append(args, word.String())
			}
			word.Reset()
			some = false
		case strings.ContainsRune("&|;>", r), r == '#' && word.Len() == 0:
			if word.Len() > 0 {
				args = append(args, word.String())
			}
			return args
		default:
			word.WriteRune(r)
		}
	}
	return args
}

var shellVariable = regexp.MustCompile(`\$\{?\w+\}?`)
