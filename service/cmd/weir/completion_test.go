//go:build system

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Shells complete commands, flags, values and files. A user types a line, and then a tab.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	t.Setenv("TERM", "dumb")
	t.Setenv("HOME", dir)
	fatal(t, os.WriteFile(filepath.Join(dir, "my rules.yaml"), nil, 0o600))
	fatal(t, os.WriteFile(filepath.Join(dir, "cert.pem"), nil, 0o600))
	lines := []struct{ typed, want string }{
		{"weir prox", "weir proxy"},
		{"weir completion f", "weir completion fish"},
		{"weir serve --resp-l", "weir serve --resp-listen"},
		{"weir serve --listen 127.0.0.1:80 --resp-l", "weir serve --listen 127.0.0.1:80 --resp-listen"},
		{"weir serve --log-format sys", "weir serve --log-format system-default"},
		{"weir serve --log-format=sys", "weir serve --log-format=system-default"},
		{"weir serve --tls-cert ce", "weir serve --tls-cert cert.pem"},
		{"weir serve --tls-cert=ce", "weir serve --tls-cert=cert.pem"},
		{"weir check my", `weir check my\ rules.yaml`},
	}
	var want []string
	for _, l := range lines {
		want = append(want, l.want)
	}
	for shell, rig := range map[string]struct{ command, begin string }{
		"bash":               {"bash --norc --noprofile -i", "source <(weir completion bash)"},
		"zsh":                {"zsh -f -i", "autoload -U compinit; compinit -u -D; bindkey -e; source <(weir completion zsh)"},
		"zsh with a package": {"zsh -f -i", "mkdir .site; weir completion zsh >.site/_weir; fpath=(~/.site $fpath); autoload -U compinit; compinit -u -D; bindkey -e"},
	} {
		t.Run(shell, func(t *testing.T) {
			typed := rig.begin + "\r"
			for _, l := range lines {
				typed += l.typed + "\t\x01echo \"=\" '\x05'\r" // the line is printed, not run
			}
			cmd := exec.Command("script", "--quiet", "--return", "--command", rig.command, os.DevNull)
			cmd.Dir = dir
			cmd.Stdin = strings.NewReader(typed + "exit\r")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var got []string
			for line := range strings.Lines(string(out)) {
				if line, found := strings.CutPrefix(line, "= "); found {
					got = append(got, strings.TrimRight(line, " \r\n"))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q\nwant %q in\n%s", got, want, out)
			}
		})
	}
	t.Run("fish", func(t *testing.T) {
		args := []string{"--no-config", "-c", "weir completion fish | source; for line in $argv; complete --do-complete $line; end"}
		for _, l := range lines {
			args = append(args, l.typed)
		}
		cmd := exec.Command("fish", args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		fatal(t, err)
		var got []string
		for line := range strings.Lines(string(out)) { // a word, a tab, and what it is
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			typed := lines[min(len(got), len(lines)-1)].typed
			got = append(got, typed[:strings.LastIndexByte(typed, ' ')+1]+strings.ReplaceAll(word, " ", `\ `))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}

// Programs that show manual pages find nothing to warn about.
func TestManual(t *testing.T) {
	lab, err := labBinary()
	fatal(t, err)
	for _, name := range []string{binary(t), lab} {
		dir := filepath.Join(t.TempDir(), "man1")
		run(t, name, "man", "--out", dir)
		pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
		fatal(t, err)
		if len(pages) < 6 {
			t.Errorf("%q", pages)
		}
		lint, _ := exec.Command("mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput()
		for line := range strings.Lines(string(lint)) {
			if !strings.Contains(line, "missing date") { // a build outside a repository has none
				t.Error(line)
			}
		}
		for _, page := range pages {
			if said := run(t, "groff", "-k", "-man", "-ww", "-z", page); said != "" {
				t.Errorf("%s: %s", page, said)
			}
		}
	}
}

// run runs a program, and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %q: %w: %s", name, args, err, out))
	}
	return string(out)
}
