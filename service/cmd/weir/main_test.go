//go:build !race

package main

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/cli/clitest"
)

// A wrong command line prints one line, and exits with status 2.
func TestBadFlags(t *testing.T) {
	const to = "http://127.0.0.1:1"
	clitest.Refuses(t, program, [][2]string{
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
		{"proxy", "missing flags: --origin=URL,... (see weir proxy --help)"},
		{"proxy --origin 127.0.0.1:8000", `must begin with a scheme, as in "http://127.0.0.1:8000"`},
		{"proxy http://127.0.0.1:8000", "the origin is --origin=URL (see weir proxy --help)"},
		{"serve rules.yaml", "the rules are --rules=PATH (see weir serve --help)"},
		{"serve --rules", "--rules: must have a value (see weir serve --help)"},
		{"proxy --queue many", `--queue: "many": must be a whole number (see weir proxy --help)`},
		{"serve --log-level loud", `--log-level: "loud": must be debug, info, warn or error`},
		{"prox", `weir: unexpected argument prox, did you mean "proxy"? (see`},
		{"serve --lisen x", `unknown flag --lisen, did you mean "--listen"? (see`},
		{"serve -z", "unknown flag -z (see"},
		{"serve --log-format xml", `--log-format: "xml": must be one of text, json, system-default (see`},
		{"serve --pprof=maybe", `--pprof: "maybe": must be true, 1, yes, false, 0 or no (see`},
		{"help nothing", "unexpected argument nothing (see weir --help)"},
		{"proxy --origin " + to + " --limit -1", `weir proxy: --limit: "-1" is read as a flag: a value that begins with - is written --limit="-1" (see`},
		{"proxy --origin " + to + " --max-wait -1s", `--max-wait: "-1s" is read as a flag: a value that begins with - is written --max-wait="-1s" (see`},
		{"serve --admin-auth", "unknown flag --admin-auth: now --admin-tokens FILE"},
		{"serve --listen 127.0.0.1:0 --peers http://127.0.0.1:1,,http://127.0.0.1:2", `"" must be like http://host:port`},
		{"proxy --origin unix:/run/app.sock", `--origin="unix:/run/app.sock": must begin with a scheme, as in "unix:///run/app.sock" (see`},
	}...)
}

// A file that is missing is named without the package that reads it.
func TestMissingFiles(t *testing.T) {
	for args, want := range map[string]string{
		"proxy --origin http://127.0.0.1:1 --rules /no/such/file": "weir proxy: --rules: open /no/such/file: no such file or directory\n",
		"serve --rules /no/such/file":                             "weir serve: stat /no/such/file: no such file or directory\n",
		"check /no/such/file":                                     "weir check: stat /no/such/file: no such file or directory\n",
	} {
		if code, _, stderr := weir(t, strings.Fields(args)...); code != 1 || stderr != want {
			t.Errorf("weir %s: %d, %q: want %q", args, code, stderr, want)
		}
	}
}

// The commands of weirlab answer with its name, whatever their arguments are. No help text lists them.
func TestMoved(t *testing.T) {
	for args, want := range map[string]string{
		"demo": "demo", "load http://127.0.0.1:1 -c 10": "load", "load compare a.json b.json": "load", "load-compare a.json b.json": "load compare",
		"origin --workers 7": "origin", "sim overload.yaml": "sim", "sim --help": "sim", "arena -- x": "arena", "lab": "sla", "lab sla --quick": "sla",
	} {
		name, _, _ := strings.Cut(args, " ")
		code, stdout, stderr := weir(t, strings.Fields(args)...)
		if want = "weir " + name + ": now weirlab " + want + ": go install "; code != 2 || stdout != "" || !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("weir %s: %d, %q, %q: want 2 and one line with %q", args, code, stdout, stderr, want)
		}
	}
	if _, help, _ := weir(t, "--help"); strings.Contains(help, "arena") || !strings.Contains(help, "weirlab") {
		t.Error(help)
	}
}

func TestVersion(t *testing.T) { clitest.Version(t, program) }

func TestHelp(t *testing.T) { clitest.Help(t, program) }

// Every flag can be set by an environment variable.
func TestEnvironment(t *testing.T) {
	clitest.Environment(t, program, map[string]string{"port": "PORT"}) // Kubernetes sets WEIR_PORT for a Service named weir
	t.Setenv("WEIR_PATH", "rules.yaml")                                // no variable sets an argument
	if code, _, stderr := weir(t, "check"); code != 2 || !strings.Contains(stderr, "$WEIR_PATH is not a variable of weir\n") || !strings.Contains(stderr, `expected "<path>"`) {
		t.Errorf("%d, %q", code, stderr)
	}
	t.Setenv("WEIR_QUEUE", "seven")
	clitest.Refuses(t, program, [2]string{"proxy --origin http://127.0.0.1:1", `--queue: "seven": must be a whole number (from $WEIR_QUEUE) (see`})
	t.Setenv("WEIR_QUEUE", "-7")
	if _, _, stderr := weir(t, "proxy", "--origin", "http://127.0.0.1:1"); !strings.Contains(stderr, "--queue=-7") {
		t.Errorf("%q: want WEIR_QUEUE to count", stderr)
	}
}

// The variable of a flag that is gone stops the start: it may have asked for tokens.
func TestReplacedVariables(t *testing.T) {
	t.Setenv("WEIR_ADMIN_AUTH", "true")
	for _, args := range []string{"serve", "proxy --origin http://127.0.0.1:1"} {
		clitest.Refuses(t, program, [2]string{args, "$WEIR_ADMIN_AUTH: --admin-auth is now --admin-tokens FILE, such as the one of --tokens (see"})
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
