// Package server decides, for a whole fleet, how much each key may have: the
// core of weir serve, without any protocol.
//
// A key is a text that callers choose: a user, a tenant, a route, a job. Rules
// (package config) say how much the keys that match them may have: tokens at a
// rate, and leases, which bound how much is in flight at once.
//
//	s, err := server.New(server.Config{Rules: rules})
//	...
//	var v server.Verdict
//	s.Decide(&server.Request{Key: "user:42", N: 1}, &v)
//	if !v.OK { ... v.Reason, v.RetryAfter ... }
//
// Wait stands in line for tokens, first come, first served. Settle tells the
// true cost of what was granted, or gives it back. Acquire holds a lease.
//
// # Bounds
//
// Counts are kept in Config.Memory (package keyedtable): keys cost nothing
// once their buckets are full again, and a flood of fresh ones refreshes none.
// Those who wait, leases, names of keys and settled grants are bounded in number.
// There is no goroutine, and no timer, for a key.
package server

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
)

// Bounds where Config leaves them open.
const (
	DefaultMemory     = 64 << 20
	DefaultMaxWaiting = 20_000
	DefaultMaxLeases  = 100_000
	DefaultKeys       = 1 << 16
)

// Config is what a Server is made of. The zero value lets everything pass.
type Config struct {
	// Rules are the first rules. If nil, there are none.
	Rules *config.Rules
	// Memory is for counts, in bytes: all rules have equal shares of it when they
	// come, but 64 KiB each at least, and keep them as long as they go on. Candidates
	// have as much again. If zero, DefaultMemory.
	Memory int
	// MaxWaiting bounds the requests that wait, of all keys together. If zero,
	// DefaultMaxWaiting; if negative, nobody waits.
	MaxWaiting int
	// MaxLeases bounds the leases held, of all keys together. If zero,
	// DefaultMaxLeases.
	MaxLeases int
	// Keys bounds the keys that are remembered, for Top and so that their rules need
	// not be looked up, of up to 256 bytes each; it is rounded up to a power of two. If
	// zero, DefaultKeys.
	Keys int
	// MaxLimit and MaxQueue are the most that a request may say for itself
	// (Request.Limit and Request.Queue). If zero, it may not.
	MaxLimit, MaxQueue int
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Memory", c.Memory}, {"MaxLeases", c.MaxLeases}, {"Keys", c.Keys}, {"MaxLimit", c.MaxLimit}, {"MaxQueue", c.MaxQueue}} {
		if f.value < 0 {
			return fmt.Errorf("server: %s = %d: must be >= 0", f.name, f.value)
		}
	}
	return nil
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// A Server decides. It is safe for concurrent use.
type Server struct {
	cfg     Config
	epoch   time.Time
	rules   atomic.Pointer[ruleset]
	keys    *keys
	waiting atomic.Int64  // requests in all lines, and for leases
	came    atomic.Uint64 // how many have stood in a line for tokens
	closed  atomic.Bool

	unmatchedKeys [2]atomic.Uint64 // requests that no rule matched: denied, allowed

	grants grants
	leases leases

	reload sync.Mutex        // held while the rules change; guards what follows
	shut   map[string]*gates // of rules that are gone, by name, while leases are held under them
}

// New returns a Server, or what is wrong with the Config.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Memory = orDefault(cfg.Memory, DefaultMemory)
	cfg.MaxWaiting = orDefault(cfg.MaxWaiting, DefaultMaxWaiting)
	cfg.MaxLeases = orDefault(cfg.MaxLeases, DefaultMaxLeases)
	s := &Server{cfg: cfg, epoch: time.Now(), shut: map[string]*gates{}, keys: newKeys(orDefault(cfg.Keys, DefaultKeys))}
	s.grants.init()
	s.leases.init(s)
	rules := cfg.Rules
	if rules == nil {
		rules = new(config.Rules)
	}
	if err := s.Reload(rules); err != nil {
		return nil, err
	}
	return s, nil
}

// IsKey reports whether a text can be a key over a protocol: not empty, UTF-8, and
// without control characters.
func IsKey(text string) bool {
	return text != "" && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// now is the Server's clock.
func (s *Server) now() time.Duration { return time.Since(s.epoch) }

// Rules returns the rules in force. They must not be changed.
func (s *Server) Rules() *config.Rules { return s.rules.Load().config }

// Reload puts other rules into force, all at once. A rule of the same name goes
// on with its counts, its line and its leases: under a new rate, tokens stay as
// they are (keyed.Limiter.SetQuota). If it is counted in another way than
// before, it begins anew. Those who wait under a rule that is gone are asked
// again under the new ones. If there is an error, nothing has changed.
//
// The rules must be complete (config.Load has seen to that), and not be changed
// afterwards.
func (s *Server) Reload(rules *config.Rules) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	old := s.rules.Load()
	set, gone, moved, err := s.newRuleset(rules, old)
	if err != nil {
		return err
	}
	s.rules.Store(set)
	s.keys.outdate()
	for _, l := range gone {
		l.lines.dismiss(errMoved, true)
		l.gates.dismiss(errMoved)
	}
	for _, r := range moved { // some of those in line may not be under it any more
		r.live.lines.dismiss(errMoved, false)
	}
	for _, r := range set.inForce() {
		r.live.gates.update(r.Concurrency)
	}
	s.shutGates(old, set)
	return nil
}

// shutGates keeps the gates of rules that are gone, as long as leases are held under
// them: if a rule comes back, they count.
func (s *Server) shutGates(old, set *ruleset) {
	if old == nil {
		return
	}
	here := map[string]bool{}
	for _, r := range set.inForce() {
		here[r.Name] = true
	}
	for _, r := range old.inForce() {
		s.shut[r.Name] = r.live.gates
	}
	maps.DeleteFunc(s.shut, func(name string, g *gates) bool { return here[name] || g.held.Load() == 0 })
}

// Close refuses from now on all who would have to wait, or lease; with now, also
// those who wait already, with the reason weir.Closed and a RetryAfter. Decisions
// that need no wait are still made, and leases returned.
func (s *Server) Close(now bool) {
	s.closed.Store(true)
	if !now {
		return
	}
	for _, r := range s.rules.Load().inForce() {
		r.live.lines.dismiss(weir.Reject(weir.Closed, drainRetry), false)
		r.live.gates.dismiss(weir.Reject(weir.Closed, drainRetry))
	}
}

// drainRetry is when those who are refused because the server ends should ask
// again: somebody else, or the next one.
const drainRetry = time.Second

// Waiting returns how many requests wait, for tokens or for leases.
func (s *Server) Waiting() int { return int(s.waiting.Load()) }
