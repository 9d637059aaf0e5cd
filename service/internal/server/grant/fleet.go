package grant

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Fleet is the ledger of a member of a fleet. All members share the secret, so each can settle
// the grants of the others. A member knows the grants that it has settled itself, and the settled
// grants in the pages that RestorePage adds.
//
// Its ids have the shape of those of a Ledger, with wall time. Their number is a random tag of
// the process and a number in order, so that ids of different members differ.
type Fleet struct {
	secret   siphash.Key
	clock    *clock.Clock
	tag      uint64        // the upper bits of numbers
	sealed   atomic.Uint64 // grants so far
	maxPages int

	mu    sync.Mutex // guards what follows
	pages map[uint64]*page
	floor uint64 // the least fleetSpan of grants that can be settled
}

const (
	tagBits = 13
	// spanBits is the number of bits of a time in milliseconds that a page does not tell apart:
	// it covers 65 s.
	spanBits = 16
	// orderBits is the number of bits of what tells pages of a span apart.
	orderBits = numberBits - pageBits
)

// NewFleet returns an empty ledger.
func NewFleet(secret siphash.Key, c *clock.Clock) *Fleet {
	f := &Fleet{secret: secret, clock: c, tag: rand.Uint64N(1 << tagBits), maxPages: MaxPages, pages: map[uint64]*page{}}
	f.sealed.Store(rand.Uint64N(1 << (numberBits - tagBits)))
	return f
}

// AppendGrantID is as in Ledger.
func (f *Fleet) AppendGrantID(b []byte, g decider.Grant, key string) []byte {
	at := g.At.Truncate(time.Millisecond)
	ms := uint64(time.Now().Add(at - f.clock.Now()).Round(time.Millisecond).UnixMilli())
	number := f.tag<<(numberBits-tagBits) | f.sealed.Add(1)&(1<<(numberBits-tagBits)-1)
	stamp := ms&(1<<timeBits-1)<<numberBits | number
	return appendID(b, stamp, seal(f.secret, ms, number, g.N, g.Rules, key), g.N)
}

// Redeem is as in Ledger. The instant of a grant that is older than the process is negative.
func (f *Fleet) Redeem(id, key string, rules []uint64, now time.Duration) (g decider.Grant, which int, err error) {
	wall := time.Now()
	stamp, got, n, ok := parseID(id)
	ms, number := latest(uint64(wall.Add(clockSkew).UnixMilli()), stamp>>numberBits, timeBits), stamp&(1<<numberBits-1)
	which = slices.IndexFunc(rules, func(sum uint64) bool { return sealed(got, f.secret, ms, number, n, sum, key) })
	age := max(wall.Sub(time.UnixMilli(int64(ms))), 0)
	if !ok || which < 0 || age > decider.GrantLife || !f.settle(ms, number, wall) {
		return decider.Grant{}, 0, decider.ErrNoGrant
	}
	at := (now - age).Round(time.Millisecond) // whole milliseconds of wall time differ from those of the node
	return decider.Grant{N: n, At: min(at, now), Rules: rules[which]}, which, nil
}

// settle remembers a grant, and reports whether it was not settled before.
func (f *Fleet) settle(ms, number uint64, wall time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pageLocked(ms>>spanBits<<orderBits|number>>pageBits, wall)
	return p != nil && p.settle(number)
}

// pageLocked returns a page, which it adds if need be; nil if its grants are too old.
func (f *Fleet) pageLocked(at uint64, wall time.Time) *page {
	if at>>orderBits < f.floor {
		return nil
	}
	p := f.pages[at]
	if p != nil {
		return p
	}
	oldest := uint64(wall.Add(-decider.GrantLife).UnixMilli()) >> spanBits
	maps.DeleteFunc(f.pages, func(at uint64, _ *page) bool { return at>>orderBits < oldest })
	for len(f.pages) >= f.maxPages {
		least := slices.Min(slices.Collect(maps.Keys(f.pages))) >> orderBits
		f.floor = least + 1
		maps.DeleteFunc(f.pages, func(at uint64, _ *page) bool { return at>>orderBits <= least })
	}
	if at>>orderBits < f.floor {
		return nil
	}
	p = new(page)
	f.pages[at] = p
	return p
}

// Life is as in Ledger.
func (f *Fleet) Life(time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(time.Since(time.UnixMilli(int64(f.floor<<spanBits))), 0), decider.GrantLife)
}

// State returns the state, without the secret.
func (f *Fleet) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return State{Fleet: true, Floor: f.floor}
}

// Pages is as in Ledger.
func (f *Fleet) Pages() iter.Seq[Page] { return copies(&f.mu, f.pages) }

// Restore sets the state. A state that no Fleet has written has no effect.
func (f *Fleet) Restore(s State, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Fleet {
		f.floor = max(f.floor, s.Floor)
	}
}

// RestorePage adds the settled grants of a page.
func (f *Fleet) RestorePage(p Page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to := f.pageLocked(p.At, time.Now()); to != nil {
		for i, word := range p.Settled {
			to[i] |= word
		}
	}
}
