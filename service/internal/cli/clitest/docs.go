package clitest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/cli"
)

// Defaults returns a table of all flags with their defaults, in the groups of the help texts.
func Defaults(t *testing.T, p *cli.Program) string {
	t.Helper()
	var page strings.Builder
	rows := 0
	for _, command := range p.Commands {
		var groups []string
		tables := map[string]string{}
		for _, f := range p.Flags(command) {
			is, byDefault := about(f)
			if f.Hidden {
				continue
			}
			group := f.Group.Title
			if tables[group] == "" {
				groups = append(groups, group)
				tables[group] = "| flag | default | is |\n|---|---|---|\n"
			}
			tables[group] += fmt.Sprintf("| `--%s` | %s | %s |\n", f.Name, cmp.Or(byDefault, "–"), strings.ReplaceAll(is, "|", `\|`))
			rows++
		}
		if len(groups) > 0 {
			fmt.Fprintf(&page, "### %s\n\n", p.Name+" "+command.Name)
		}
		for _, group := range groups {
			if group != "" {
				fmt.Fprintf(&page, "%s\n\n", strings.TrimSuffix(group, ":"))
			}
			fmt.Fprintf(&page, "%s\n", tables[group])
		}
	}
	if rows < 40 {
		t.Errorf("%d flags", rows)
	}
	return page.String()
}

// about returns the first sentence of a flag's help text, and its default, which is at the end of the text.
func about(f *cli.Flag) (is, byDefault string) {
	if f.Default != "" {
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
	shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	long  = regexp.MustCompile(`--[a-z][a-z0-9-]*`)
)

// CommandLines fails t if a command line of the program in README or docs is wrong: the program must accept those of
// blocks, and know the flags of the others. root is the directory of README; least is how many there are at least.
func CommandLines(t *testing.T, p *cli.Program, root string, least int) {
	t.Helper()
	inline := regexp.MustCompile("`(?:bin/)?" + p.Name + " ([^`]*)`")
	command := regexp.MustCompile(`(?:^|[;|&(]|\bdo|=\S+)\s*(?:bin/)?` + p.Name + ` ([a-z].*)`)
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	Fatal(t, err)
	lines := 0
	for _, name := range append(names, filepath.Join(root, "README.md"), filepath.Join(root, "deploy", "README.md")) {
		file, err := os.ReadFile(name)
		Fatal(t, err)
		text := string(file)
		for _, block := range shell.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				for _, m := range command.FindAllStringSubmatch(strings.TrimSuffix(line, "\n"), -1) {
					lines++
					if args := words(m[1]); len(args) > 0 && args[0] != "help" {
						if err := p.Accepts(args); err != nil {
							t.Errorf("%s: %s %s: %v", name, p.Name, m[1], err)
						}
					}
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			lines++
			for _, f := range long.FindAllString(m[1], -1) {
				if !p.HasFlag(strings.Fields(m[1]), f) {
					t.Errorf("%s: `%s %s`: there is no flag %s", name, p.Name, m[1], f)
				}
			}
		}
	}
	if lines < least {
		t.Errorf("%d command lines", lines)
	}
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
