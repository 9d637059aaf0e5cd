package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// weir runs a command line in this process.
func weir(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

// A wrong command line prints one line, and exits with status 2.
func TestBadFlags(t *testing.T) {
	const to = "http://127.0.0.1:1"
	for _, tt := range []struct{ args, want string }{
		{"nonsense", "unexpected argument nonsense"},
		{"proxy", "missing flags: --origin=URL"},
		{"proxy --origin a", `Origins = "a": must be an absolute http, https or h2c URL`},
		{"proxy --origin " + to + " --limit five", `--limit: "five": must be auto, aimd, vegas, gradient2 or a whole number >= 0`},
		{"proxy --origin " + to + " --limit=-1", `--limit: "-1": must be auto`},
		{"proxy --origin " + to + " --queue=-1", "--queue=-1: must be >= 0"},
		{"proxy --origin " + to + " --max-wait=-1s", "--max-wait=-1s: must be >= 0s"},
		{"proxy --origin " + to + " --max-wait=1", "--max-wait"},
		{"proxy --origin " + to + " --max-healthy-latency=-1s", "--max-healthy-latency=-1s: must be >= 0s"},
		{"proxy --origin " + to + " --min-limit=-1", "Min = -1: must be >= 1"},
		{"proxy --origin " + to + " --initial-limit=9 --max-limit=5", "Initial = 9: must be in [1, 5]"},
		{"proxy --origin " + to + " --max-connections=0", "--max-connections=0: must be >= 1"},
		{"proxy --origin " + to + " --log-level=loud", "--log-level"},
		{"proxy --origin " + to + " --listen=here", "--listen=here: want host:port"},
		{"origin --workers 0", "--workers=0: must be in [1, 100000]"},
		{"origin --distribution pareto", "pareto"},
		{"origin --failure-rate 2", "--failure-rate=2: must be in [0, 1]"},
		{"load", `expected "<target>"`},
		{"load a", `target = "a": must be a URL with a host, and with one of the schemes grpc, grpcs, http,`},
		{"load grpc://127.0.0.1:1/d?k=v --body x", `body = "x": must be empty: the target has all of a grpc request`},
		{"load redis://127.0.0.1:1", `body = "": must be what a redis request sends, such as "CL.THROTTLE user:{n} 15 30 60"`},
		{"load redis://:secret@192.0.2.1:1 --body PING", `target = "redis://:xxxxx@192.0.2.1:1": 192.0.2.1 is not this machine; give --i-own-this-target`},
		{"load grpc://192.0.2.1:1/d?k=v", "192.0.2.1 is not this machine"},
		{"load tcp://127.0.0.1:1 --body x --header a:b", "tcp requests have no header"},
		{"load udp://127.0.0.1:1 --body x --method PUT", "udp requests have no method"},
		{"load " + to + " --rate fast", "--rate: pace: \"fast\": want a rate"},
		{"load " + to + " --arrivals never", "--arrivals"},
		{"load " + to + " --workers=-1", "workers = -1"},
		{"load " + to + " --timeout=0s", "--timeout=0s: must be >= 1ms"},
		{"load " + to + " --header x", "--header=x: want NAME:VALUE"},
		{"load http://192.0.2.1", "192.0.2.1 is not this machine; give --i-own-this-target"},
		{"demo --speed 0", "--speed=0: must be in [0.1, 50]"},
		{"demo --headless --duration 1s", "--duration=1s: must be in [20s, 24h]"},
		{"demo --json", "--json needs --headless"},
		{"demo --out x", "--out needs --headless"},
	} {
		code, stdout, stderr := weir(t, strings.Fields(tt.args)...)
		if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("weir %s: %d, %q, %q: want 2 and one line with %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "serve --help", "check --help", "proxy --help", "origin --help", "load --help", "sim --help", "demo --help"} {
		code, stdout, stderr := weir(t, strings.Fields(args)...)
		if code != 0 || !strings.HasPrefix(stdout, "Usage: weir") || stderr != "" {
			t.Errorf("weir %s: %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// Every flag can be set by an environment variable.
func TestEnvironment(t *testing.T) {
	parser, err := kong.New(&commands{}, options()...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			n++
			want := "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if flag.Name == "port" {
				want = "PORT" // Kubernetes sets WEIR_PORT for a Service named weir
			}
			if len(flag.Envs) == 0 || flag.Envs[0] != want {
				t.Errorf("weir %s --%s: variables %v: want %s first", command.Name, flag.Name, flag.Envs, want)
			}
			if flag.Help == "" {
				t.Errorf("weir %s --%s has no help", command.Name, flag.Name)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d flags: the model was not read", n)
	}
	t.Setenv("WEIR_QUEUE", "-7")
	if _, _, stderr := weir(t, "proxy", "--origin", "http://127.0.0.1:1"); !strings.Contains(stderr, "--queue=-7") {
		t.Errorf("%q: want WEIR_QUEUE to count", stderr)
	}
}

func TestLoadCommand(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "trace.csv")
	args := []string{"load", srv.URL, "--rate", "200", "--duration", "200ms", "--trace", file}

	code, stdout, stderr := weir(t, args...)
	if code != 0 || !strings.Contains(stdout, "offered") || !strings.Contains(stdout, "404") {
		t.Errorf("%d, %q, %q: want a table", code, stdout, stderr)
	}
	records, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(records), "\n"); n != 41 {
		t.Errorf("%d lines in the trace: want a header and 40 records", n)
	}

	code, stdout, stderr = weir(t, append(args, "--json")...)
	var report struct {
		ByStatus map[string]int `json:"by_status"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || report.ByStatus["404"] != 40 {
		t.Errorf("%d, %v, %+v, %q: want JSON", code, err, report, stderr)
	}

	if code, _, stderr := weir(t, "load", srv.URL, "--trace", t.TempDir(), "--duration", "10ms"); code != 1 || !strings.Contains(stderr, "--trace") {
		t.Errorf("%d, %q: want an error of the trace", code, stderr)
	}
}

// A load of lines prints the same table.
func TestLoadLines(t *testing.T) {
	target, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	code, stdout, stderr := weir(t, "load", "udp://"+target.LocalAddr().String(), "--body", "hits.{n}:1|c", "--rate", "200", "--duration", "50ms", "--quiet")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "sent") || !strings.Contains(stdout, "10 requests in 0.1 s") {
		t.Errorf("%d, %q, %q: want a table", code, stdout, stderr)
	}
	var lines []string // several workers send them
	for range 10 {
		line := make([]byte, 100)
		n, _, err := target.ReadFrom(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line[:n]))
	}
	for n := range 10 {
		if want := fmt.Sprintf("hits.%d:1|c\n", n+1); !slices.Contains(lines, want) {
			t.Errorf("%q: want %q", lines, want)
		}
	}
}

// Ctrl-C ends a load and prints the results so far.
func TestLoadInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { interrupt() }))
	defer srv.Close()
	var out, err bytes.Buffer
	code := run(ctx, []string{"load", srv.URL, "--quiet"}, &out, &err)
	if code != 0 || !strings.Contains(out.String(), "goodput") || err.Len() > 0 {
		t.Errorf("%d, %q, %q: want the table so far", code, out.String(), err.String())
	}
}

func TestDemoInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"demo", "--headless"}, &out, &err); code != 1 || out.Len() > 0 || !strings.Contains(err.String(), "interrupted") {
		t.Errorf("%d, %q, %q: want no results", code, out.String(), err.String())
	}
}
