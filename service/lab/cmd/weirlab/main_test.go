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
		{"origin --workers 0", "--workers=0: must be in [1, 100000]"},
		{"origin --distribution pareto", "pareto"},
		{"origin --failure-rate 2", "--failure-rate=2: must be in [0, 1]"},
		{"load", `expected "<target>"`},
		{"load 127.0.0.1:8000/a", `must begin with a scheme, as in http://127.0.0.1:8000/a`},
		{"load " + to + " --duration 10", `--duration: "10": must be a time with its unit, such as 10s, 500ms or 2m (see weirlab load --help)`},
		{"load " + to + " -z 10s", "that of hey or ab is --duration=TIME (see weirlab load --help)"},
		{"load " + to + " --nothing", "unknown flag --nothing (see weirlab load --help)"},
		{"demo --speed fast", `--speed: "fast": must be a number (see weirlab demo --help)`},
		{"origin --service-time soon", `--service-time: "soon": must be a time with its unit`},
		{"load unix:/run/app.sock", `target = "unix:/run/app.sock": a Unix socket cannot be a target: send to a weir proxy --origin unix:///PATH in front of it`},
		{"load unix:///run/app.sock", `a Unix socket cannot be a target: send to a weir proxy`},
		{"load " + to + " -q 5", "weirlab load: unknown flag -q: that of hey or ab is --rate=RPS"},
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
		{"load compare /dev/null /dev/null", "/dev/null: it is not a report of weirlab load"},
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
	}...)
}

// A file that is missing is named without the package that reads it.
func TestMissingFile(t *testing.T) {
	const want = "weirlab sim: open /no/such/file: no such file or directory\n"
	if code, _, stderr := weirlab(t, "sim", "/no/such/file"); code != 1 || stderr != want {
		t.Errorf("%d, %q: want %q", code, stderr, want)
	}
}

// The flags that are hinted at exist.
func TestHints(t *testing.T) {
	_, help, _ := weirlab(t, "load", "--help")
	for letter, hint := range heys {
		name, _, _ := strings.Cut(hint, "=")
		code, _, stderr := weirlab(t, "load", "http://127.0.0.1:1", letter, "1")
		if !strings.Contains(help, " "+name) || code != 2 || !strings.Contains(stderr, hint) {
			t.Errorf("%s: %d, %s: want %s, which weirlab load has", letter, code, stderr, hint)
		}
	}
}

func TestVersion(t *testing.T) { clitest.Version(t, program) }

func TestHelp(t *testing.T) { clitest.Help(t, program, "load compare --help") }

// Every flag can be set by an environment variable.
func TestEnvironment(t *testing.T) { clitest.Environment(t, program, nil) }
