package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type toyCmd struct {
	Level slog.Level `default:"info" help:"Log this level. And more."`
	Mode  string     `short:"m" enum:",fast,slow" placeholder:"HOW" help:"How."`
	Name  []string   `placeholder:"NAME" help:"A name: any."`
	Out   string     `placeholder:"DIR" help:"Where."`
	Limit string     `choices:"auto,${more}" help:"A number, or ${more}."`
	Quiet bool       `help:"Say less."`
	Old   bool       `hidden:"" help:"No longer."`
	Path  string     `arg:"" placeholder:"FILE" help:"The file."`
	Kinds []string   `arg:"" optional:"" enum:"a,b" help:"Kinds."`
}

func (*toyCmd) Run(context.Context, Streams) error { return nil }

type bareCmd struct {
	Fast bool          `help:"Hurry."`
	Pace time.Duration `needs:"fast" default:"1s" hidden:"" help:"How fast."`
}

func (*bareCmd) Run(context.Context, Streams) error { return nil }

var toy = &Program{
	Name: "toy", Description: "toy has 2 commands.\n\nAnd more.", Vars: map[string]string{"more": "none, some"}, TwoWords: []string{"run it"},
	Commands: []Command{
		{Name: "run", Help: "Run a file.", Detail: "More:\n\n\ttoy run\n\nLists:\n  - one\n  - two", New: func() Runner { return new(toyCmd) }},
		{Name: "run-it", Help: "Run it.", New: func() Runner { return new(bareCmd) }},
	},
}

func TestComplete(t *testing.T) {
	for _, tt := range []struct{ shell, line, want string }{ // the last word of a line is after its last space
		{"bash", "", "run run-it completion man"},
		{"bash", "ru", "run run-it"},
		{"fish", "c", "completion\tPrint a script that completes command lines in a shell"},
		{"bash", "nothing ", ""},
		{"bash", "--", "--help --version"},
		{"bash", "help r", "run run-it"},
		{"bash", "man r", "run run-it"},
		{"bash", "man --o", "--out"},
		{"bash", "completion ", "bash zsh fish"},
		{"bash", "run --", "--help --version --level --mode --name --out --limit --quiet"},
		{"zsh", "run --le", "--level:Log this level"},
		{"zsh", "run --na", `--name:A name: any`},
		{"bash", "run --quiet -m fast --name a --", "--help --version --level --name --out --limit"},
		{"bash", "run --mode ", "fast slow"},
		{"bash", "run --mode s", "slow"},
		{"bash", "run --limit ", "auto none some"},
		{"bash", "run -m f", "fast"},
		{"bash", "run --level=w", "warn"},
		{"bash", "run --level = w", "warn"},
		{"fish", "run --level=w", "--level=warn\t"},
		{"bash", "run --level = ", "debug info warn error"},
		{"bash", "run --level =", "debug info warn error"},
		{"bash", "run --out ", ":dirs"},
		{"fish", "run --out=a", ":dirs"},
		{"bash", "run --name ", ""},
		{"bash", "run --name http : //a : 80 --q", "--quiet"},
		{"bash", "run ", ":files"},
		{"bash", "run x", ":files"},
		{"bash", "run -- --", ":files"},
		{"bash", "run --quiet a ", "a b"},
		{"bash", "run a b ", "a b"},
		{"bash", "run --unknown --qu", "--quiet"},
		{"bash", "run-it ", "--help --version --fast"},
		{"bash", "run it --f", "--fast"},
		{"bash", "run-it a ", "--help --version --fast"},
	} {
		var out, log bytes.Buffer
		code := toy.Run(t.Context(), append([]string{"__complete", tt.shell}, strings.Split(tt.line, " ")...), &out, &log)
		if got := strings.Join(strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' }), " "); code != 0 || got != tt.want || log.Len() > 0 {
			t.Errorf("%s: toy %s: %d, %q, %s: want %q", tt.shell, tt.line, code, got, &log, tt.want)
		}
	}
	if code := toy.Run(t.Context(), []string{"__complete", "bash"}, new(bytes.Buffer), new(bytes.Buffer)); code != 0 {
		t.Error(code)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out bytes.Buffer
		if code := toy.Run(t.Context(), []string{"completion", shell}, &out, &out); code != 0 || strings.Contains(out.String(), "NAME") || !strings.Contains(out.String(), "__complete "+shell) {
			t.Errorf("%s: %d, %s", shell, code, &out)
		}
	}
	for args, want := range map[string]string{
		"completion tcsh": "toy completion: --shell: \"tcsh\": must be one of bash, zsh, fish (see toy completion --help)\n",
		"completion":      "toy completion: expected \"<shell>\" (see toy completion --help)\n",
		"man walk":        "toy man: walk: there is no such command (see toy man --help)\n",
	} {
		var out, log bytes.Buffer
		if code := toy.Run(t.Context(), strings.Fields(args), &out, &log); code != 2 || log.String() != want {
			t.Errorf("%s: %d, %q: want %q", args, code, &log, want)
		}
	}
}

func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out bytes.Buffer
	if code := toy.Run(t.Context(), []string{"man", "--out", dir}, &out, &out); code != 0 || out.Len() > 0 {
		t.Fatalf("%d, %s", code, &out)
	}
	for _, name := range []string{"toy.1", "toy-run.1", "toy-run-it.1", "toy-completion.1", "toy-man.1"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if code := toy.Run(t.Context(), []string{"man", "run"}, &out, &out); code != 0 {
		t.Fatal(&out)
	}
	written, err := os.ReadFile(filepath.Join(dir, "toy-run.1"))
	if err != nil || string(written) != out.String() {
		t.Errorf("%v: %s", err, written)
	}
	_, page, _ := strings.Cut(out.String(), "\n") // without the date
	const want = `.SH NAME
toy\-run \- Run a file
.SH SYNOPSIS
\fBtoy run\fR [flags] <path> [<kinds> ...]
.SH DESCRIPTION
Run a file.
.PP
More:
.PP
.nf
.RS
toy run
.RE
.fi
.PP
Lists:
.IP \(bu 2
one
.IP \(bu 2
two
.SH ARGUMENTS
.TP
\fB<path>\fR
The file.
.TP
\fB[<kinds> ...]\fR
Kinds.
.SH OPTIONS
.TP
\fB\-h, \-\-help\fR
Show this help. Each flag is also an environment variable: \-\-max\-wait is $WEIR_MAX_WAIT.
.TP
\fB\-v, \-\-version\fR
Print the version, the commit and the Go version.
.TP
\fB\-\-level=\fR
Log this level. And more.
.TP
\fB\-m, \-\-mode=HOW\fR
How.
.TP
\fB\-\-name=NAME,...\fR
A name: any.
.TP
\fB\-\-out=DIR\fR
Where.
.TP
\fB\-\-limit=\fR
A number, or none, some.
.TP
\fB\-\-quiet\fR
Say less.
.SH EXIT STATUS
0 for success, 1 for a failure, 2 for a wrong command line.
.SH SEE ALSO
\fBtoy\fR(1),
https://github.com/weir\-go/weir
`
	if page != want {
		t.Errorf("%s\nwant\n%s", page, want)
	}
	out.Reset()
	if code := toy.Run(t.Context(), []string{"man"}, &out, &out); code != 0 || !strings.Contains(out.String(), "\n.SH NAME\ntoy \\- toy has 2 commands\n.SH") {
		t.Errorf("%s\nwant a name of one sentence", &out)
	}
	if got := roff(".a\n'b\\"); got != "\\&.a\n\\&'b\\e" {
		t.Errorf("%q: a line of the text is a request", got)
	}
}
