//go:build system

package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A cuttable forwards connections to an address, until it is cut.
type cuttable struct {
	net.Listener
	to  string
	mu  sync.Mutex // guards what follows
	cut bool
	all []net.Conn
}

// cuttableTo returns a cuttable way to the URL of a server, and its own URL.
func cuttableTo(t *testing.T, url string) (*cuttable, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(t, err)
	c := &cuttable{Listener: ln, to: strings.TrimPrefix(url, "http://")}
	go c.serve()
	t.Cleanup(func() { _ = c.Close(); c.set(true) })
	return c, "http://" + ln.Addr().String()
}

func (c *cuttable) serve() {
	for {
		in, err := c.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil || !c.keep(in, out) {
			_ = in.Close()
			continue
		}
		go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	}
}

func (c *cuttable) keep(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conns...)
	return !c.cut
}

// set cuts the way, or opens it.
func (c *cuttable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; cut {
		for _, conn := range c.all {
			_ = conn.Close()
		}
		c.all = nil
	}
}

// A demand asks a zone for tokens of a key without a pause.
type demand struct {
	given, degraded atomic.Int64
	stop            chan struct{}
	all             sync.WaitGroup
}

// demands asks with some callers at a time, each ten times in a hundredth of a second at most.
func (s *served) demands(path string, callers int) *demand {
	d := &demand{stop: make(chan struct{})}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	for range callers {
		d.all.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-d.stop:
					return
				case <-tick.C:
				}
				a, err := tryAsk(client, "POST", s.public+path)
				switch {
				case err != nil:
					s.t.Error(err)
					return
				case a.status == http.StatusOK:
					d.given.Add(1)
				case a.status != http.StatusTooManyRequests:
					s.t.Errorf("%v", a)
					return
				}
				if a.header.Get("Weir-Degraded") != "" {
					d.degraded.Add(1)
				}
			}
		})
	}
	s.t.Cleanup(d.end)
	return d
}

func (d *demand) end() {
	select {
	case <-d.stop:
	default:
		close(d.stop)
	}
	d.all.Wait()
}

// gives checks that demands are given at most a rate, with what is there at the beginning, in a
// time.
func gives(t *testing.T, what string, pause time.Duration, rate, first float64, all ...*demand) {
	t.Helper()
	sum := func() (n int64) {
		for _, d := range all {
			n += d.given.Load()
		}
		return n
	}
	began, before := time.Now(), sum()
	time.Sleep(pause)
	got, took := sum()-before, time.Since(began).Seconds()
	t.Logf("%s: %d in %.1f s, of at most %.0f", what, got, took, rate*took+first)
	if most := rate*took*1.02 + first; float64(got) > most || got == 0 {
		t.Errorf("%s: %d tokens in %.1f s, want some, and at most %.0f", what, got, took, most)
	}
}

// Two zones under one owner keep its limit together, also while one is cut off: that one goes on, and keeps to
// its safe share. It comes back by itself. If the owner is killed, both go on.
func TestUpstreamZones(t *testing.T) {
	t.Parallel()
	name, rules := binary(t), file(t, "rules.yaml", zoneRules)
	owner := startProcess(t, name, "--rules", rules, "--rlqs-ttl", "3s")
	way, url := cuttableTo(t, owner.public)
	zones := []*process{
		startProcess(t, name, "--rules", rules, "--upstream", owner.public, "--upstream-leaves", "2"),
		startProcess(t, name, "--rules", rules, "--upstream", url, "--upstream-leaves", "2"),
	}
	first, second := zones[0].demands("/rate/page", 2), zones[1].demands("/rate/page", 2)
	for _, z := range zones {
		z.untilSteps("assigned")
	}
	time.Sleep(3 * time.Second) // the owner has learnt
	gives(t, "both zones", 3*time.Second, zoneRate, zoneBurst, first, second)
	// On a machine that is short of time, an exchange can be late.
	if n, given := first.degraded.Load()+second.degraded.Load(), first.given.Load()+second.given.Load(); n > given/20 {
		t.Errorf("%d degraded decisions, of %d that gave", n, given)
	}

	way.set(true)
	zones[1].until("the upstream does not answer: decisions are degraded")
	zones[1].untilSteps("last", "share")
	gives(t, "both zones while one is cut off", 3*time.Second, zoneRate, zoneBurst, first, second)
	gives(t, "the zone that is cut off", 2*time.Second, zoneRate/2, zoneBurst/2, second)
	way.set(false)
	zones[1].until("the upstream answers again")
	zones[1].untilSteps("assigned")
	gives(t, "both zones again", 2*time.Second, zoneRate, zoneBurst, first, second)

	owner.kill()
	for _, z := range zones {
		z.until("the upstream does not answer: decisions are degraded")
		z.untilSteps("share")
	}
	gives(t, "both zones without the owner", 3*time.Second, zoneRate, zoneBurst, first, second)
	first.end()
	second.end()
	for _, z := range zones {
		z.end()
	}
}

// untilSteps waits until decisions have been made on all these steps, since the last call.
func (s *served) untilSteps(steps ...string) {
	s.t.Helper()
	read := func() map[string]uint64 { return s.status().Upstream.Decisions }
	before := read()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now, missing := read(), ""
		for _, step := range steps {
			if now[step] == before[step] {
				missing = step
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no decision on the step %s: %v", missing, now)
		}
	}
}
