package main

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	proxies  = 3
	quotaTTL = 11 * time.Second // at least twice the five seconds between the reports of Envoy
	ofQuotas = "envoy.md#over-a-restart"
)

//go:embed envoy.yaml
var envoyYAML string

// envoyBinary returns the path of the Envoy that make need installs.
func envoyBinary() string {
	home, err := os.UserHomeDir()
	check(err)
	gopath := os.Getenv("GOPATH")
	if gopath == "" {
		gopath = filepath.Join(home, "go")
	}
	found, err := filepath.Glob(filepath.Join(gopath, "clients/envoy/lib/python3*/site-packages/envoy/_bin/envoy"))
	check(err)
	if len(found) != 1 {
		check(fmt.Errorf("no Envoy found: make need installs it: %q", found))
	}
	return found[0]
}

// An edge is Envoys with quotas of a weir serve.
type edge struct {
	w      *world
	limits *proc
	envoys []*proc
}

func (w *world) edge() *edge {
	self, err := os.Executable()
	check(err)
	origin := w.host()
	origin.start(8000, self, "-listen", origin.ip+":8000")
	h := w.host()
	w.allow("a-token-of-proxies-1")
	e := &edge{w: w, limits: h.start(8082, w.weir, "serve", "--tokens", w.dir+"/tokens.yaml", "--watch-interval", "100ms", "--listen", h.ip+":8080", "--admin", h.ip+":8081", "--grpc-listen", h.ip+":8082",
		"--assignment-ttl", quotaTTL.String(), "--state", filepath.Join(w.dir, "state"), "--drain-delay", "500ms",
		"--rules", w.file("rules.yaml", fmt.Sprintf("rules: [{name: users, glob: \"edge|user=*\", rate: %d/s, burst: %d}]\n", rate, burst)))}
	for range proxies {
		at := w.host()
		config := strings.NewReplacer("$HOST", at.ip, "$LIMITS", h.ip, "$ORIGIN", origin.ip).Replace(envoyYAML)
		e.envoys = append(e.envoys, at.start(8080, envoyBinary(), "-c", w.file(at.name+".yaml", config), "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"))
	}
	return e
}

// through is an asker for pages through the Envoys, as a user.
func (w *world) throughEdge(e *edge) asker {
	return func(target int) (bool, string, error) {
		r, err := http.NewRequest("GET", e.envoys[target].url()+"/", nil)
		check(err)
		r.Header.Set("user", "k")
		return decision(w.client.Do(r))
	}
}

// A quotaFault happens to the weir serve.
type quotaFault struct {
	name       string
	changes    float64 // how often the assignments of all proxies change
	begin, end func(e *edge)
}

var quotaFaults = []quotaFault{
	{"kill -9, and a start", 1, func(e *edge) { e.limits.kill() }, func(e *edge) { e.limits.again() }},
	{"SIGTERM, and a start", 1, func(e *edge) { e.limits.end() }, func(e *edge) { e.limits.again() }},
	{"SIGSTOP", 0, func(e *edge) { e.limits.stop() }, func(e *edge) { e.limits.cont() }},
	{"silent partition of all proxies", 0, func(e *edge) { e.limits.h.unplug() }, func(e *edge) { e.limits.h.plug() }},
	{"rotated token, that proxies do not have", 1, func(e *edge) {
		e.w.allow("another-token-of-proxies")
		until("no proxy has a stream", func() bool { return e.limits.metric("weir_rlqs_streams") == 0 })
	}, func(e *edge) { e.w.allow("a-token-of-proxies-1") }},
}

func quotaPlays() (all []row) {
	for _, f := range quotaFaults {
		all = append(all, row{"RLQS", f.name, f.play})
	}
	return all
}

var rlqsRows = quotaPlays()

func (f quotaFault) play(w *world) {
	e := w.edge()
	l := startLoad(proxies, 2, w.throughEdge(e))
	until("all proxies have shares", func() bool {
		var passed [proxies]int
		for _, a := range l.sofar().between(l.now()-3*time.Second, l.now()) {
			if a.granted {
				passed[a.target]++
			}
		}
		return min(passed[0], passed[1], passed[2]) > 3*rate/proxies/2
	})
	w.pause(4 * time.Second)
	f.begin(e)
	time.Sleep(absence)
	f.end(e)
	w.pause(quotaTTL)
	all := l.stop()
	w.excess(all, burst+f.changes*burst, map[float64]string{0: "*b*: no overshoot", 1: "*b* + *b*, because new assignments begin full"}[f.changes], ofQuotas)
	w.none("requests without a decision", all.failures(), "a proxy decides by itself", ofQuotas)
}
