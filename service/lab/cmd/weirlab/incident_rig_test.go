//go:build system && !race

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/incident"
	"github.com/weir-go/weir/service/lab/internal/load"
	"github.com/weir-go/weir/service/lab/internal/pace"
	"github.com/weir-go/weir/service/lab/internal/trace"
)

// A pod is a service like most: requests wait for one of its workers, first come, first served, and are worked on even if
// their callers have left.
type pod struct {
	workers    *inflight.Limiter
	routes     map[string]work // by the first element of the path
	dependency string          // its URL
	client     *http.Client

	slower  atomic.Int64  // by how much the dependency is, in nanoseconds
	stalled atomic.Int64  // until when no work begins, in nanoseconds since 1970
	fails   atomic.Uint64 // the share of the requests that get status 500 at once, as a float64
}

// work is the mean time that a request needs a worker: for what the pod does, and for a call of the dependency.
type work struct{ own, dependency time.Duration }

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rand.Float64() < math.Float64frombits(p.fails.Load()) {
		http.Error(w, "no connection to the database", 500)
		return
	}
	permit, err := p.workers.Acquire(context.Background(), 1)
	if err != nil {
		http.Error(w, "too many requests wait", http.StatusServiceUnavailable)
		return
	}
	defer permit.Release(weir.Success)
	time.Sleep(time.Until(time.Unix(0, p.stalled.Load())))
	does := p.routes[route(r.URL.Path)]
	time.Sleep(spread(does.own))
	if does.dependency > 0 {
		resp, err := p.client.Get(p.dependency + "?takes=" + spread(does.dependency+time.Duration(p.slower.Load())).String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = resp.Body.Close()
	}
	_, _ = io.WriteString(w, "done\n")
}

// dependency is a service that takes as long as its callers say.
func dependency(w http.ResponseWriter, r *http.Request) {
	d, _ := time.ParseDuration(r.FormValue("takes"))
	time.Sleep(d)
}

// spread draws a lognormal time with a mean, and a coefficient of variation of 0.3.
func spread(mean time.Duration) time.Duration {
	const sigma = 0.2936 // √ln(1 + 0.3²)
	return time.Duration(float64(mean) * math.Exp(sigma*rand.NormFloat64()-sigma*sigma/2))
}

func route(path string) string { return strings.Split(path, "/")[1] }

// A stream is the requests of callers for one route.
type stream struct {
	path string
	rate string // from the beginning to the end, or, if it is new, from the incident on
	new  bool
}

// A scene is an incident of pods behind a weir proxy.
type scene struct {
	cause         incident.Cause
	suffers       []string // flags of the proxy with which callers get little
	pods          int
	workers       int // of each pod
	queue         int // of each pod; further requests get status 503
	routes        map[string]work
	streams       []stream
	retries       int               // of a caller, after each try that fails
	happens       func(pods []*pod) // causes the incident
	left          int               // workers of all pods that work well then
	slower        time.Duration     // by how much the dependency is slower then
	nothingServed time.Duration     // from the beginning of the incident on
}

const (
	patience = time.Second // of a caller, for each try
	pause    = 100 * time.Millisecond
)

// total is how long callers wait.
func (s *scene) total() time.Duration { return time.Duration(s.retries+1) * (patience + pause) }

// A span is a part of a run: all is well, or the incident lasts.
type span struct{ quiet, incident time.Duration }

// An account says what callers saw. Rates are of the incident, in requests a second.
type account struct {
	began           time.Time // the incident
	offered, served []float64 // by stream
	well            float64   // share of the requests before the incident that were served
	sent, late      int       // requests, and how many of them were sent 100 ms late or more
	recording       []byte
}

func sum(all []float64) (s float64) {
	for _, x := range all {
		s += x
	}
	return s
}

// could returns how many requests a second could have been served during the incident. The ones with the least work come first.
func (s *scene) could(a *account) (n float64) {
	takes := func(i int) float64 {
		does := s.routes[route(s.streams[i].path)]
		if does.dependency > 0 {
			does.dependency += s.slower
		}
		return (does.own + does.dependency).Seconds()
	}
	order := make([]int, len(s.streams))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(takes(i), takes(j)) })
	workers := float64(s.left)
	for _, i := range order {
		served := min(a.offered[i], workers/takes(i))
		workers -= served * takes(i)
		n += served
	}
	return n
}

// buildWeir builds weir, and returns its path.
func buildWeir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.Command("go", "build", "-tags", "grpcnotrace", "-o", path, "github.com/weir-go/weir/service/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// startProxy starts weir proxy, and returns the URLs for callers and for operators.
func startProxy(t *testing.T, weir string, args []string) (listen, admin string) {
	t.Helper()
	cmd := exec.Command(weir, append([]string{"proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	testrig.Must(t, err)
	testrig.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	log := bufio.NewScanner(stderr)
	log.Scan()
	m := regexp.MustCompile(`\blisten=(\S+) admin=(\S+)`).FindStringSubmatch(log.Text())
	if m == nil {
		t.Fatalf("weir proxy %q: %s", args, log.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	return m[1], m[2]
}

// run plays the scene in real time. The proxy has some flags; without is the number of an origin that it does not have, from 1 on, or 0.
func (s *scene) run(t *testing.T, weir string, flags []string, without int, lasts span) *account {
	t.Helper()
	other := httptest.NewServer(http.HandlerFunc(dependency))
	defer other.Close()
	var pods []*pod
	for i := range s.pods {
		workers, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(s.workers), Queue: s.queue, MaxWait: -1, Discipline: inflight.FIFO, WaitOnly: true})
		testrig.Must(t, err)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.workers}}
		defer client.CloseIdleConnections()
		p := &pod{workers: workers, routes: s.routes, dependency: other.URL, client: client}
		srv := httptest.NewServer(p)
		defer srv.Close()
		if pods = append(pods, p); i+1 != without {
			flags = append(slices.Clone(flags), "--origin", srv.URL)
		}
	}
	listen, admin := startProxy(t, weir, flags)
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	defer transport.CloseIdleConnections()

	start := time.Now()
	a := &account{began: start.Add(lasts.quiet), offered: make([]float64, len(s.streams)), served: make([]float64, len(s.streams))}
	seconds := (lasts.incident - s.nothingServed).Seconds()
	before, served := 0, 0
	var mu sync.Mutex // guards the account and the counts
	var streams sync.WaitGroup
	for i, st := range s.streams {
		streams.Go(func() {
			begins := time.Duration(0)
			if st.new {
				begins = lasts.quiet
			}
			profile, err := pace.Parse(st.rate)
			testrig.Must(t, err)
			time.Sleep(time.Until(start.Add(begins)))
			_, err = load.Run(t.Context(), load.Config{
				Target: listen + st.path, Profile: profile, Poisson: true, Seed: rand.Uint64(), Duration: lasts.quiet + lasts.incident - begins,
				Timeout: s.total(), Transport: &caller{transport, s.retries},
				Record: func(r trace.Record) {
					mu.Lock()
					defer mu.Unlock()
					a.sent++
					if r.Start-r.Intended > 100*time.Millisecond {
						a.late++
					}
					good := 0
					if r.Success() {
						good = 1
					}
					switch at := begins + r.Intended - lasts.quiet; {
					case at < 0:
						before++
						served += good
					case at >= s.nothingServed:
						a.offered[i] += 1 / seconds
						a.served[i] += float64(good) / seconds
					}
				},
			})
			testrig.Must(t, err)
		})
	}
	time.Sleep(time.Until(a.began))
	if s.happens != nil {
		s.happens(pods)
	}
	streams.Wait()
	time.Sleep(2 * time.Second) // requests without a caller end, and have a record
	a.well = float64(served) / float64(before)
	resp, err := http.Get(admin + "/-/recording?last=5m")
	testrig.Must(t, err)
	defer func() { _ = resp.Body.Close() }()
	a.recording, err = io.ReadAll(resp.Body)
	testrig.Must(t, err)
	if resp.StatusCode != 200 {
		t.Fatalf("%s: %s", resp.Status, a.recording)
	}
	return a
}

// A caller leaves after its patience, and tries again, a number of times.
type caller struct {
	http.RoundTripper
	retries int
}

func (c *caller) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	for again := c.retries; ; again-- {
		resp, err = c.try(r)
		if err == nil && resp.StatusCode < 500 || again == 0 || r.Context().Err() != nil {
			return resp, err
		}
		time.Sleep(pause)
	}
}

func (c *caller) try(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	resp, err := c.RoundTripper.RoundTrip(r.Clone(ctx))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}
