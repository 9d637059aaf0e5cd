//go:build system

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A cable passes connections on, until it is cut.
type cable struct {
	ln   net.Listener
	from string // the address that the server sees
	to   string
	mu   sync.Mutex
	cut  bool
	open map[net.Conn]struct{}
}

func lay(t *testing.T, from, to string) *cable {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	c := &cable{ln: ln, from: from, to: to, open: map[net.Conn]struct{}{}}
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go c.pass(in)
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		c.set(true)
	})
	return c
}

func (c *cable) pass(in net.Conn) {
	defer in.Close()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}, Timeout: time.Second}
	out, err := d.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	c.mu.Lock()
	if c.cut {
		c.mu.Unlock()
		return
	}
	c.open[in] = struct{}{}
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(out, in)
		out.Close()
		in.Close()
	}()
	_, _ = io.Copy(in, out)
	c.mu.Lock()
	delete(c.open, in)
	c.mu.Unlock()
}

// set cuts the cable, or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; cut {
		for conn := range c.open {
			conn.Close()
		}
	}
}

// Three real Envoys, of which two have one address, go on over restarts of the server: 99 % of the requests below the limit pass from
// two seconds after it on, also of a user that was not there before, and of one at an Envoy that is cut off for longer. Requests beyond
// the limit pass within the bound of each case.
func TestEnvoyRestarts(t *testing.T) {
	t.Parallel()
	const limit = 100
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	name, state, port := binary(t), filepath.Join(t.TempDir(), "state"), freePort(t)
	rules := file(t, "rules.yaml", fmt.Sprintf("rules: [{glob: 'edge|user=*', rate: %d/s}]", limit))
	serve := func(keeps bool) *process {
		args := []string{"--rules", rules, "--grpc-listen", "127.0.0.1:" + port}
		if keeps {
			args = append(args, "--state", state, "--state-interval", "2s")
		}
		return startProcess(t, name, args...)
	}
	server := serve(true)
	filter := strings.Replace(rlqsShare(limit/3), "no_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}", "no_assignment_behavior: {fallback_rate_limit: {blanket_rule: ALLOW_ALL}}", 1)
	var envoys []*envoy
	var cables []*cable
	for i := range 3 {
		c := lay(t, fmt.Sprintf("127.0.0.%d", 2+i/2), "127.0.0.1:"+port)
		cables = append(cables, c)
		envoys = append(envoys, startEnvoy(t, filter, portOf(strings.TrimPrefix(upstream.URL, "http://")), portOf(c.ln.Addr().String())))
	}
	users := map[string]*edge{
		"three": loadEnvoys(t, envoys, "a-three", 25, 15, 10),
		"one":   loadEnvoys(t, envoys[1:2], "a-one", 50),
		"late":  loadEnvoys(t, envoys[2:], "a-late", 50),
	}
	many := loadEnvoys(t, envoys, "a-many", 60, 60, 60)
	started := many.now()
	time.Sleep(22 * time.Second)
	passes := func(what string, e *edge, from float64) {
		t.Helper()
		to := e.now()
		_, passed := e.rates(from, to)
		_, asked := e.offered(from, to)
		_, stalled := e.stalls.since(e.start.Add(time.Duration(from * float64(time.Second))))
		lost := min(stalled.Seconds()/(to-from), 0.04) // requests come in a crowd after a stall
		if t.Logf("%s: %.2f %% of the requests pass", what, 100*passed/asked); passed < (0.99-lost)*asked {
			t.Errorf("%s: %.0f of %.0f requests a second pass; the machine stalled for %v", what, passed, asked, stalled)
		}
	}
	for user, e := range users { // what each Envoy needs is known after its next report, and what others have beyond that is free after the one after it
		passes("a first start: "+user, e, started+2+2*reportEvery.Seconds())
	}
	for i, c := range []struct {
		name        string
		kill, keeps bool
		away        time.Duration // of the third Envoy
		exceeds     float64       // the part of the limit in 10 s
	}{
		{"SIGTERM with state", false, true, 0, 0.05},
		{"kill -9 with state, an Envoy is away", true, true, 15 * time.Second, 0.1},
		{"SIGTERM with state, an Envoy is away", false, true, 15 * time.Second, 0.05},
		{"kill -9 without state", true, false, 0, 0.25},
		{"SIGTERM without state, an Envoy is away", false, false, 15 * time.Second, 0.5},
	} {
		cables[2].set(c.away > 0)
		from := many.now()
		if c.kill {
			server.kill()
		} else {
			server.end()
		}
		time.Sleep(time.Second)
		server = serve(c.keeps)
		back := map[string]float64{}
		for user, e := range users {
			back[user] = e.now() + 2
		}
		time.Sleep(time.Second)
		tenth := loadEnvoys(t, envoys[:1], fmt.Sprint("a-tenth-", i), 10)
		time.Sleep(max(c.away-2*time.Second, 0))
		cables[2].set(false)
		time.Sleep(25 * time.Second)
		for user, e := range users {
			passes(c.name+": "+user, e, back[user])
		}
		passes(c.name+": a tenth", tenth, 1)
		most, beyond := many.most(from, many.now(), 10, limit)
		t.Logf("%s: at most %d requests in 10 s, and %.0f beyond the limit in a row", c.name, most, beyond)
		if most := float64(most); most > 10*limit*(1+c.exceeds)+limit {
			t.Errorf("%s: %.0f requests pass in 10 s of %d", c.name, most, 10*limit)
		}
	}
	server.end()
}
