//go:build !race

package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// A wrong command line prints one line, and exits with status 2.
func TestBadFlags(t *testing.T) {
	const to = "http://127.0.0.1:1"
	for _, tt := range []struct{ args, want string }{
		{"nonsense", "unexpected argument nonsense"},
		{"proxy", "missing flags: --origin=URL"},
		{"proxy --origin a", `weir proxy: --origin="a": must begin with a scheme`},
		{"proxy --origin " + to + " --limit five", `--limit: "five": must be auto, aimd, vegas, gradient2 or a whole number >= 0`},
		{"proxy --origin " + to + " --limit=-1", `--limit: "-1": must be auto`},
		{"proxy --origin " + to + " --queue=-1", "--queue=-1: must be >= 0"},
		{"proxy --origin " + to + " --max-wait=-1s", "--max-wait=-1s: must be >= 0s"},
		{"proxy --origin " + to + " --max-wait=1", "--max-wait"},
		{"proxy --origin " + to + " --max-healthy-latency=-1s", "--max-healthy-latency=-1s: must be >= 0s"},
		{"proxy --origin " + to + " --slow-start=-1s", "--slow-start=-1s: must be >= 0s"},
		{"proxy --origin " + to + " --max-pressure=1", "--max-pressure=1: must be in [0, 0.99]"},
		{"proxy --origin " + to + " --max-pressure=0.4 --pressure-file=/none", "open /none"},
		{"proxy --origin " + to + " --min-limit=-1", "Min = -1: must be >= 1"},
		{"proxy --origin " + to + " --initial-limit=9 --max-limit=5", "Initial = 9: must be in [1, 5]"},
		{"proxy --origin " + to + " --max-connections=0", "--max-connections=0: must be >= 1"},
		{"proxy --origin " + to + " --log-level=loud", "--log-level"},
		{"proxy --origin " + to + " --listen=here", "--listen=here: want host:port"},
		{"origin --workers 0", "--workers=0: must be in [1, 100000]"},
		{"origin --distribution pareto", "pareto"},
		{"origin --failure-rate 2", "--failure-rate=2: must be in [0, 1]"},
		{"load", `expected "<target>"`},
		{"load 127.0.0.1:8000/a", `must begin with a scheme, as in http://127.0.0.1:8000/a`},
		{"load " + to + " --duration 10", `--duration: "10": must be a time with its unit, such as 10s, 500ms or 2m (see weir load --help)`},
		{"load " + to + " -z 10s", "that of hey or ab is --duration=TIME (see weir load --help)"},
		{"load " + to + " --nothing", "unknown flag --nothing (see weir load --help)"},
		{"proxy", "missing flags: --origin=URL,... (see weir proxy --help)"},
		{"proxy --origin 127.0.0.1:8000", `must begin with a scheme, as in "http://127.0.0.1:8000"`},
		{"proxy http://127.0.0.1:8000", "the origin is --origin=URL (see weir proxy --help)"},
		{"serve rules.yaml", "the rules are --rules=PATH (see weir serve --help)"},
		{"serve --rules", "--rules: must have a value (see weir serve --help)"},
		{"proxy --queue many", `--queue: "many": must be a whole number (see weir proxy --help)`},
		{"demo --speed fast", `--speed: "fast": must be a number (see weir demo --help)`},
		{"origin --service-time soon", `--service-time: "soon": must be a time with its unit`},
		{"serve --log-level loud", `--log-level: "loud": must be debug, info, warn or error`},
		{"help nothing", "unexpected argument nothing (see weir --help)"},
		{"proxy --origin " + to + " --limit -1", `weir proxy: --limit: "-1" is read as a flag: a value that begins with - is written --limit="-1" (see`},
		{"proxy --origin " + to + " --max-wait -1s", `--max-wait: "-1s" is read as a flag: a value that begins with - is written --max-wait="-1s" (see`},
		{"proxy --origin unix:/run/app.sock", `--origin="unix:/run/app.sock": must begin with a scheme, as in "unix:///run/app.sock" (see`},
		{"load unix:/run/app.sock", `target = "unix:/run/app.sock": a Unix socket cannot be a target: send to a weir proxy --origin unix:///PATH in front of it`},
		{"load unix:///run/app.sock", `a Unix socket cannot be a target: send to a weir proxy`},
		{"load " + to + " -q 5", "weir load: unknown flag -q: that of hey or ab is --rate=RPS"},
		{"load a", `target = "a": must be a URL with a host, and with one of the schemes grpc, grpcs, http,`},
		{"load grpc://127.0.0.1:1/d?k=v --body x", `body = "x": must be empty: the target has all of a grpc request`},
		{"load redis://127.0.0.1:1", `body = "": must be what a redis request sends, such as "CL.THROTTLE user:{n} 15 30 60"`},
		{"load redis://:secret@192.0.2.1:1 --body PING", `target = "redis://:xxxxx@192.0.2.1:1": 192.0.2.1 is not this machine; give --i-own-this-target`},
		{"load grpc://192.0.2.1:1/d?k=v", "192.0.2.1 is not this machine"},
		{"load tcp://127.0.0.1:1 --body x --header a:b", "tcp requests have no header"},
		{"load udp://127.0.0.1:1 --body x --method PUT", "udp requests have no method"},
		{"load " + to + " --rate 0", "--rate=0 sends nothing: give a rate, or --workers"},
		{"load " + to + " --rate 0@10s", "--rate=0@10s sends nothing"},
		{"load " + to + " -n=-1", "requests = -1: must be >= 0"},
		{"load " + to + " --body @/no/such/file", "--body=@/no/such/file: open /no/such/file"},
		{"load --targets /no/such/file", "--targets=/no/such/file: open /no/such/file"},
		{"load --targets /dev/null", "--targets=/dev/null: there are none"},
		{"load redis://127.0.0.1:1 --body PING --http2", "redis requests are not HTTP"},
		{"load " + to + " --insecure --ca /dev/null", "--insecure and --ca exclude each other"},
		{"load " + to + " --ca /dev/null", "--ca: /dev/null: there is no certificate in it"},
		{"load " + to + " --cert /dev/null", "--cert and --key: give both, or none"},
		{"load " + to + " --report r.txt", "--report=r.txt: the name must end in .json, .html or .hgrm"},
		{"load " + to + " --metrics 9000", "--metrics=9000: want host:port"},
		{"load " + to + " --max-failed 2", "want a share such as 1% or 0.01"},
		{"load " + to + " --max-p99 fast", "fast"},
		{"load " + to + " --min-goodput=-1", "--min-goodput=-1: must be >= 0"},
		{"load compare a.json", `expected "<after>"`},
		{"load compare /dev/null /dev/null", "/dev/null: it is not a report of weir load"},
		{"load compare /no/such/file /dev/null", "open /no/such/file"},
		{"load " + to + " --rate fast", "--rate: \"fast\": want a rate"},
		{"load " + to + " --arrivals never", "--arrivals"},
		{"load " + to + " --workers=-1", "workers = -1"},
		{"load " + to + " --timeout=0s", "--timeout=0s: must be >= 1ms"},
		{"load " + to + " --header x", "--header=x: want NAME:VALUE"},
		{"load " + to + " --header a:b\x01c", `--header="a:b\x01c": has a character that a header field cannot have`},
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

// A file that is missing is named without the package that reads it.
func TestMissingFiles(t *testing.T) {
	for args, want := range map[string]string{
		"proxy --origin http://127.0.0.1:1 --rules /no/such/file": "weir proxy: --rules: open /no/such/file: no such file or directory\n",
		"serve --rules /no/such/file":                             "weir serve: stat /no/such/file: no such file or directory\n",
		"check /no/such/file":                                     "weir check: stat /no/such/file: no such file or directory\n",
		"sim /no/such/file":                                       "weir sim: open /no/such/file: no such file or directory\n",
	} {
		if code, _, stderr := weir(t, strings.Fields(args)...); code != 1 || stderr != want {
			t.Errorf("weir %s: %d, %q: want %q", args, code, stderr, want)
		}
	}
}

// The flags that are hinted at exist.
func TestHints(t *testing.T) {
	_, help, _ := weir(t, "load", "--help")
	for letter, hint := range heys {
		name, _, _ := strings.Cut(hint, "=")
		code, _, stderr := weir(t, "load", "http://127.0.0.1:1", letter, "1")
		if !strings.Contains(help, " "+name) || code != 2 || !strings.Contains(stderr, hint) {
			t.Errorf("%s: %d, %s: want %s, which weir load has", letter, code, stderr, hint)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "serve --help", "check --help", "proxy --help", "origin --help", "load --help", "load compare --help", "sim --help", "demo --help", "help", "help load"} {
		code, stdout, stderr := weir(t, strings.Fields(args)...)
		if code != 0 || !strings.HasPrefix(stdout, "Usage: weir") || stderr != "" {
			t.Errorf("weir %s: %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// The help of each command fits a terminal, and its flags without a group, which come first, fit a screen.
func TestHelpIsReadable(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	parser, err := kong.New(&commands{}, options()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Leaves(true) {
		_, help, _ := weir(t, append(strings.Fields(command.Path()), "--help")...)
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("weir %s --help has a line of %d characters: %s", command.Path(), n, line)
			}
		}
		first, last := 0, -1
		for _, flag := range command.Flags {
			if flag.Group == nil {
				first++
				continue
			}
			at := slices.IndexFunc(groups, func(g kong.Group) bool { return g == *flag.Group })
			if at < last || at < 0 {
				t.Errorf("weir %s --%s: its group %q is not in its place", command.Path(), flag.Name, flag.Group.Title)
			}
			last = at
		}
		if first > 15 {
			t.Errorf("weir %s has %d flags without a group", command.Path(), first)
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
			want := variable(flag.Name)
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

func TestDemoInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, err bytes.Buffer
	if code := run(ctx, []string{"demo", "--headless"}, &out, &err); code != 1 || out.Len() > 0 || !strings.Contains(err.String(), "interrupted") {
		t.Errorf("%d, %q, %q: want no results", code, out.String(), err.String())
	}
}

// Invalid flags and files are reported in one line, before the server listens.
func TestServeFlags(t *testing.T) {
	rules := file(t, "rules.yaml", "rules: []")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--rules " + rules + " -m 5", 2, "--rules and --max-requests exclude each other: leave out --max-requests, or its environment variable"},
		{"--rules " + rules + " -c gocc.json", 2, "--rules and --config-file exclude each other"},
		{"--rules " + rules + " --gocc", 2, "--rules and --gocc exclude each other"},
		{"--benchmark --store redis://b", 2, "--benchmark and --store exclude each other"},
		{"--benchmark --benchmark-time 1ms", 2, "--benchmark-time=1ms: must be in [10ms, 1m]"},
		{"--benchmark --rules nowhere.yaml", 1, "nowhere.yaml: no such file"},
		{"-i http://a,b:80", 2, "--peers: "},
		{"--peers http://a --store redis://b", 2, "--peers and --store exclude each other"},
		{"--peers http://a --upstream http://b", 2, "--peers and --upstream exclude each other"},
		{"--self http://a", 2, "--self needs --peers"},
		{"--self http://d --peers http://a,http://b:81,http://c", 2, "--self=http://d is none of --peers, which all instances need the same: http://a:80, http://b:81, http://c:80"},
		{"--peers http://a,http://b,http://A:80/", 2, `--peers: "http://A:80/" is listed twice`},
		{"--peers dns+http://weir", 2, `--peers: "dns+http://weir" has no port`},
		{"--peer-secret-file nowhere", 2, "--peer-secret-file needs --peers"},
		{"--peers http://a --peer-secret-file nowhere", 2, "--peer-secret-file: open nowhere"},
		{"--peers http://a --peer-secret-file " + file(t, "secret", "short"), 2, "the secret has 5 bytes: must be at least 16"},
		{"--peers http://a --tokens tokens.yaml", 2, "--peers with --tokens needs --peer-secret-file or --client-ca"},
		{"-m 0", 2, "--max-requests=0: must be >= 1"},
		{"-w=-5", 2, "--window-millis=-5: must be >= 1"},
		{"--max-requests-in-queue=-1", 2, "--max-requests-in-queue=-1: must be >= 0"},
		{"-p 70000", 2, "--port=70000: must be in [0, 65535]"},
		{"--listen here", 2, "--listen=here: want host:port"},
		{"--algorithm leaky", 2, "--algorithm"},
		{"--memory 1x", 2, `"1x": want a number of bytes`},
		{"--memory 1KiB", 2, "--memory=1KiB: must be >= 65536"},
		{"--max-connections 0", 2, "--max-connections=0: must be >= 1"},
		{"--client-timeout 0s", 2, "--client-timeout=0s: must be >= 1ms"},
		{"--watch-interval 0s", 2, "--watch-interval=0s: must be >= 1ms"},
		{"--drain wait", 2, "--drain"},
		{"--tls-cert a", 2, "--tls-cert and --tls-key: give both, or none"},
		{"--client-ca a", 2, "--client-ca needs --tls-cert and --tls-key"},
		{"--admin-tls", 2, "--admin-tls needs --tls-cert and --tls-key"},
		{"--admin-tokens /none", 1, "open /none"},
		{"--rules nowhere.yaml", 1, "nowhere.yaml: no such file"},
		{"--tokens nowhere.yaml", 1, "nowhere.yaml: no such file"},
		{"-c nowhere.json", 1, "nowhere.json: no such file"},
		{"--tls-cert nowhere.pem --tls-key nowhere.pem", 1, "nowhere.pem: no such file"},
		{"--state nowhere/at/all", 1, "--state: open nowhere/at/all"},
	} {
		code, stdout, stderr := weir(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, strings.Fields(tt.args)...)...)
		if code != tt.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("weir serve %s: %d, %q, %q: want %d and one line with %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}
