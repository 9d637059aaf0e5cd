package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// asked returns how many of the requests about a key the server itself allows in a time, of 200 a
// second.
func (d desk) asked(key string, span time.Duration) (n int) {
	d.t.Helper()
	var v decider.Verdict
	for range span / (5 * time.Millisecond) {
		time.Sleep(5 * time.Millisecond)
		if d.Decide(&decider.Request{Key: key, N: 1}, &v); v.OK {
			n++
		}
	}
	return n
}

// The server's own decisions have the part of the limit that leaves do not hold, from the first
// request on, and each token counts once.
func TestDecisionsBesideAssignments(t *testing.T) {
	for name, c := range map[string]struct {
		per   config.Per
		wants float64
		least int // allowed in 10 s, but for a burst
		most  int
	}{
		"contended": {"", 1000, 0, 20},
		"half":      {"", 50, 350, 400}, // it holds 50, some headroom, and a fourth of the rest
		"per rule":  {config.PerRule, 50, 350, 400},
	} {
		bubble(t, func(t *testing.T) {
			rule := one("all", quota(100, time.Second, ""))
			rule.Per, rule.Burst = c.per, 20
			d := learnt(t, server.Config{}, rule)
			has := 0.0
			for range 3 {
				has = d.assign("a", leaf.Report{Key: "k", Wants: c.wants, Has: has}).Rate
				time.Sleep(time.Second)
			}
			time.Sleep(5 * time.Second)
			d.asked("k", 5*time.Second) // the burst
			d.assign("a", leaf.Report{Key: "k", Wants: c.wants, Has: has, Used: int(12 * min(has, c.wants))})
			if n := d.asked("k", 10*time.Second); n < c.least || n > c.most {
				t.Errorf("%s: a leaf has %.0f of 100, and %d requests are allowed in 10 s, want %d to %d", name, has, n, c.least, c.most)
			}
			// What a leaf has used beyond its assignment counts, too.
			d.assign("a", leaf.Report{Key: "k", Wants: c.wants, Has: has, Used: 100_000})
			if n := d.asked("k", 100*time.Millisecond); n > 0 {
				t.Errorf("%s: %d requests are allowed after a leaf has used much more", name, n)
			}
		})
	}
}
