package keyed

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/keyedtable"
)

// Inflight limits how many units of work of each key are in flight, such as the requests of a
// client, or its streams. A key that has none costs nothing. Work beyond the limit is denied at
// once. For a limit of all work together, with a queue, use package inflight.
//
// Inflight is a Decider, and a limit of rules in httplimit and grpclimit. It is safe for
// concurrent use, and starts no goroutine. It takes the same keys as a Limiter.
//
//	lim, err := keyed.NewInflight[string](10, keyed.Config{})
//	...
//	p, ok := lim.TryAcquire(user, 1)
//	if !ok { ... }
//	defer p.Release(weir.Success)
//
// Release the permit when the work has ended, not when its caller has left: the outcome does not
// matter.
type Inflight[K comparable] struct {
	print func(K) uint64
	owner weir.Owner // of the permits
	most  int64      // keys

	limit        atomic.Int64
	keys, units  atomic.Int64
	denied, full atomic.Uint64
	shards       [inflightShards]inflightShard
}

// NewInflight returns an Inflight that gives every key a limit in units, >= 0. Of cfg, only
// Memory matters: a key with work in flight takes 64 bytes. While memory is full, keys that have
// none in flight are denied. The error names the argument that makes no sense.
func NewInflight[K comparable](limit int, cfg Config) (*Inflight[K], error) {
	if limit < 0 {
		return nil, fmt.Errorf("keyed: limit = %d: must be >= 0", limit)
	}
	memory, err := keyedtable.Config(cfg).Bytes()
	if err != nil {
		return nil, err
	}
	l := &Inflight[K]{print: keyedtable.Fingerprints[K](), most: int64(memory / inflightBytes)}
	l.owner = (*inflightOwner[K])(l)
	l.limit.Store(int64(limit))
	return l, nil
}

const (
	inflightShards = 64
	inflightBytes  = 64      // of a key in a map, at most
	spareUnits     = 1 << 10 // keys of which a shard keeps the memory
)

// An inflightShard holds the units in flight of some keys, by fingerprint.
type inflightShard struct {
	mu    sync.Mutex // guards what follows
	units map[uint64]int64
	grown bool // for more than spareUnits

	_ [40]byte // so that no two shards share a cache line
}

// SetLimit changes the limit of all keys, to at least 0. Work in flight goes on: a key that has
// more than a lower limit gets no units until it has less.
func (l *Inflight[K]) SetLimit(limit int) { l.limit.Store(int64(max(limit, 0))) }

// TryAcquire returns a Permit for n units of a key if the limit has room for them. It does not
// wait. Use of the Permit does nothing: a unit in flight is a unit, whatever it costs. It panics
// if n < 0.
func (l *Inflight[K]) TryAcquire(key K, n int) (weir.Permit, bool) {
	v := l.decide(key, n)
	return v.Permit.Move(), v.OK
}

// Decide is TryAcquire as a Decider. RetryAfter is weir.Never if n exceeds the limit, and else 0,
// not known, as ResetAfter is. The error is nil.
func (l *Inflight[K]) Decide(_ context.Context, key K, n int) (Verdict, error) {
	return l.decide(key, n), nil
}

func (l *Inflight[K]) decide(key K, n int) Verdict {
	if n < 0 {
		panic("keyed: negative cost")
	}
	print, limit := l.print(key), l.limit.Load()
	used, ok := l.take(print, int64(n), limit)
	d := weir.Decision{OK: ok, Remaining: int(max(limit-used, 0))}
	policy := Policy{Limit: int(limit), Concurrent: true}
	switch {
	case ok:
		return Verdict{d, policy, weir.OwnedPermit(&l.owner, weir.Grant{N: n, Note: print})}
	case int64(n) > limit:
		d.RetryAfter = weir.Never
	}
	return Verdict{Decision: d, Policy: policy}
}

// take takes n units of a key if they are within the limit, and returns how many are in flight.
func (l *Inflight[K]) take(print uint64, n, limit int64) (used int64, ok bool) {
	s := &l.shards[print%inflightShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	used = s.units[print]
	switch {
	case n == 0:
		return used, true
	case n > limit-used:
		l.denied.Add(1)
		return used, false
	case used == 0:
		if l.keys.Add(1) > l.most {
			l.keys.Add(-1)
			l.full.Add(1)
			return used, false
		}
		if s.units == nil {
			s.units = map[uint64]int64{}
		}
	}
	s.units[print] = used + n
	s.grown = s.grown || len(s.units) > spareUnits
	l.units.Add(n)
	return used + n, true
}

// give gives n units of a key back.
func (l *Inflight[K]) give(print uint64, n int64) {
	if n == 0 {
		return
	}
	s := &l.shards[print%inflightShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	l.units.Add(-n)
	if left := s.units[print] - n; left > 0 {
		s.units[print] = left
		return
	}
	delete(s.units, print)
	l.keys.Add(-1)
	if s.grown && len(s.units) == 0 { // maps do not shrink
		s.units, s.grown = nil, false
	}
}

// InflightStats are the state of an Inflight, and its counts since NewInflight.
type InflightStats struct {
	Keys   int    // with work in flight
	Units  int    // in flight, of all keys
	Denied uint64 // decisions against a key that was at its limit
	Full   uint64 // decisions against a key because memory was full
}

// Stats returns the state and the counts. They are read one after the other.
func (l *Inflight[K]) Stats() InflightStats {
	return InflightStats{
		Keys: int(l.keys.Load()), Units: int(l.units.Load()), Denied: l.denied.Load(), Full: l.full.Load(),
	}
}

// inflightOwner keeps Use and Release, which a Permit calls, out of Inflight's methods.
type inflightOwner[K comparable] Inflight[K]

func (o *inflightOwner[K]) Use(g weir.Grant, _ int) int { return g.N }

func (o *inflightOwner[K]) Release(g weir.Grant, _ weir.Outcome) {
	(*Inflight[K])(o).give(g.Note, int64(g.N))
}
