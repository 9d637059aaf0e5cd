// Package clitest runs the commands of a program in the process of a test, and checks what is alike in all programs:
// help texts, environment variables, and the command lines of the documents.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weir-go/weir/service/internal/cli"
)

// Run runs a command line of a program.
func Run(t *testing.T, p *cli.Program, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = p.Run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// Fatal ends the test if err is not nil.
func Fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// File writes a temporary file.
func File(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	Fatal(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// LintMetrics checks metrics in the text format with the linter of promtool check metrics.
func LintMetrics(t *testing.T, text string) {
	t.Helper()
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v in\n%s", err, problems, text)
	}
}

// Refuses fails t unless each command line prints one line, and exits with status 2. After each command line is a part
// of what its line must say.
func Refuses(t *testing.T, p *cli.Program, lines ...[2]string) {
	t.Helper()
	for _, l := range lines {
		args, want := l[0], l[1]
		code, stdout, stderr := Run(t, p, strings.Fields(args)...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s %s: %d, %q, %q: want 2 and one line with %q", p.Name, args, code, stdout, stderr, want)
		}
	}
}

// Help fails t unless the help of each command fits a terminal, and its flags without a group, which come first, fit
// a screen. It completes the value of each flag.
func Help(t *testing.T, p *cli.Program, more ...string) {
	t.Helper()
	t.Setenv("COLUMNS", "80")
	lines := append([]string{"", "--help", "help"}, more...)
	for _, command := range p.Commands {
		lines = append(lines, command.Name+" --help", "help "+command.Name)
		checkFlags(t, p, command)
	}
	for _, line := range lines {
		code, help, stderr := Run(t, p, strings.Fields(line)...)
		if code != 0 || !strings.HasPrefix(help, "Usage: "+p.Name) || stderr != "" {
			t.Errorf("%s %s: %d, %q, %q", p.Name, line, code, help, stderr)
		}
		for said := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(said, "\n")); n > 80 {
				t.Errorf("%s %s has a line of %d characters: %s", p.Name, line, n, said)
			}
		}
	}
}

func checkFlags(t *testing.T, p *cli.Program, command cli.Command) {
	t.Helper()
	first := 0
	for _, flag := range p.Flags(command) {
		if flag.Group == (cli.Group{}) {
			first++
		}
		if code, _, stderr := Run(t, p, "__complete", "bash", command.Name, "--"+flag.Name+"="); code != 0 || stderr != "" {
			t.Errorf("%s %s --%s=: %d, %q", p.Name, command.Name, flag.Name, code, stderr)
		}
	}
	if first > 15 {
		t.Errorf("%s %s has %d flags without a group", p.Name, command.Name, first)
	}
}

// Environment fails t unless every flag can be set by the environment variable that its name
// tells, or by another one in variables.
func Environment(t *testing.T, p *cli.Program, variables map[string]string) {
	t.Helper()
	n := 0
	for _, command := range p.Commands {
		for _, flag := range p.Flags(command) {
			n++
			want := cli.Variable(flag.Name)
			if other := variables[flag.Name]; other != "" {
				want = other
			}
			if len(flag.Envs) == 0 || flag.Envs[0] != want {
				t.Errorf("%s %s --%s: variables %v: want %s first", p.Name, command.Name, flag.Name, flag.Envs, want)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d flags: the model was not read", n)
	}
}

// Version fails t unless the program prints its version in a line, whatever $WEIR_VERSION is: an image may have it.
func Version(t *testing.T, p *cli.Program) {
	t.Helper()
	t.Setenv("WEIR_VERSION", "1")
	code, stdout, stderr := Run(t, p, "--version")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, p.Name+" ") || !strings.Contains(stdout, runtime.Version()) || strings.Count(stdout, "\n") != 1 {
		t.Errorf("%d, %q, %q: want one line with the Go version", code, stdout, stderr)
	}
	if _, same, _ := Run(t, p, "version"); same != stdout {
		t.Errorf("version: %q: want %q", same, stdout)
	}
	first := p.Commands[0].Name
	if code, stdout, _ := Run(t, p, first, "--help"); code != 0 || strings.HasPrefix(stdout, p.Name+" ") {
		t.Errorf("%d, %q: want WEIR_VERSION to be ignored", code, stdout)
	}
}
