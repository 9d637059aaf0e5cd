// Package allocator shares a rate limit out among leaves: processes that decide by
// themselves, each within an assignment.
//
// A leaf reports how much of the limit it wants, and gets an assignment: a rate, a burst
// and a time to live.
//
//	a := allocator.New(allocator.Config{Limit: allocator.Limit{Rate: 1000, Burst: 100}, TTL: 30 * time.Second})
//	got, err := a.Report(now, allocator.Report{Leaf: "pod-7", Wants: 120, Has: 80})
//
// # Fairness
//
// Shares are max-min fair by weight (Bertsekas and Gallager, Data Networks, 6.5.2): no
// leaf gets more than it wants while another one of the same weight gets less than it
// wants and less than that one. While all get what they want, each also gets a part of the
// rest, so that it can grow at once; one part is left for a leaf that is still unknown.
//
// # No overshoot
//
// At each instant, the assignments that leaves may be using add up to at most the limit. An
// answer can be late or lost, so what a leaf had counts until a report shows that the
// leaf has a smaller assignment, or until its time to live is over. A change of shares
// takes effect over two reports of each leaf.
//
// If a leaf starts with an empty bucket, and keeps its tokens, but not more than the burst,
// when its assignment changes, then all leaves together spend at most Burst + Rate·t in a
// time t.
//
// # Restart
//
// A new Allocator does not know what leaves have. Until Config.Learn it assigns each leaf
// what the leaf says it has, as Doorman does (github.com/youtube/doorman, doc/design.md).
//
// The package is pure: it takes each instant as an argument.
package allocator

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/internal/heap"
)

// A Limit is a rate with a burst, which leaves share.
type Limit struct {
	Rate  float64 // tokens a second, >= 0
	Burst float64 // tokens, >= 0
}

// Config configures an Allocator.
type Config struct {
	Limit Limit
	// TTL is how long an assignment is valid without another report, > 0.
	TTL time.Duration
	// Learn is the instant until which leaves get what they say they have: the start and a
	// TTL, unless no leaf can have an assignment.
	Learn time.Duration
	// Keep lets a leaf keep the rate that it has while its share differs from that by less
	// than this part of it: in [0, 1). Leaves that lose tokens by a change need it.
	Keep float64
}

// A Report tells the demand of a leaf.
type Report struct {
	Leaf string
	// Wants is the rate that the leaf would use if it had no limit, in tokens a second.
	Wants float64
	// Has is the rate of the assignment that the leaf uses now; 0 without one.
	Has float64
	// Weight is the leaf's part in proportion to others, > 0. If zero, 1.
	Weight float64
}

// An Assignment bounds the use by a leaf until an instant.
type Assignment struct {
	Limit
	Until time.Duration
}

// ErrReport is the error of Report.
var ErrReport = errors.New("allocator: wants, has and weight must be finite numbers and not negative")

// An Allocator shares one limit out. New makes one. It is not safe for concurrent use. A
// Report takes time in proportion to the logarithm of the number of leaves.
type Allocator struct {
	cfg     Config
	quantum float64 // all assigned rates are multiples of it
	leaves  map[string]*leaf
	expiry  *heap.Heap[*leaf]
	wants   demands
	held    float64 // sum of leaf.held
	seq     uint64
}

// A leaf is a leaf that has an assignment.
type leaf struct {
	name  string
	held  float64 // the most that it may be using
	until time.Duration
	at    int // in the heap
	demand
}

// New returns an Allocator. It panics if the Config is invalid.
func New(cfg Config) *Allocator {
	if cfg.TTL <= 0 || cfg.Keep < 0 || cfg.Keep >= 1 {
		panic("allocator: TTL must be positive, and Keep in [0, 1)")
	}
	a := &Allocator{cfg: cfg, leaves: map[string]*leaf{}, wants: demands{priorities: rand.NewPCG(1, 2)}}
	a.expiry = heap.New(func(a, b *leaf) bool { return a.until < b.until }).Track(func(l *leaf, at int) { l.at = at })
	a.SetLimit(cfg.Limit)
	return a
}

// SetLimit changes the limit. Leaves hear of it with their next assignments: until then, or
// until the times to live are over, a smaller limit can be exceeded.
func (a *Allocator) SetLimit(l Limit) {
	if !valid(l.Rate) || !valid(l.Burst) {
		panic("allocator: rate and burst must be finite numbers and not negative")
	}
	a.cfg.Limit = l
	// Sums of multiples of a power of two are exact, up to 2⁵³ times of it.
	_, exp := math.Frexp(l.Rate)
	a.quantum = math.Ldexp(1, exp-50)
}

func valid(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// Report takes a report, and returns the assignment of the leaf from now on.
func (a *Allocator) Report(now time.Duration, r Report) (Assignment, error) {
	if r.Weight == 0 {
		r.Weight = 1
	}
	if !valid(r.Wants) || !valid(r.Has) || !valid(r.Weight) {
		return Assignment{}, ErrReport
	}
	a.Expire(now)
	l := a.leaves[r.Leaf]
	if l == nil {
		a.seq++
		l = &leaf{name: r.Leaf, demand: demand{seq: a.seq}}
		a.leaves[r.Leaf] = l
		a.expiry.Push(l)
	} else {
		a.wants.remove(&l.demand)
	}
	l.demand.wants, l.weight = r.Wants, r.Weight
	a.wants.insert(&l.demand)

	free := max(a.cfg.Limit.Rate-(a.held-l.held), 0)
	rate, uses := a.wants.share(&l.demand, a.cfg.Limit.Rate), min(r.Has, l.held)
	if now < a.cfg.Learn {
		rate, uses = r.Has, min(r.Has, free)
	}
	if math.Abs(rate-uses) < a.cfg.Keep*uses {
		rate = uses
	}
	rate = math.Floor(min(rate, free)/a.quantum) * a.quantum
	a.hold(l, max(rate, math.Ceil(uses/a.quantum)*a.quantum))
	l.until = now + a.cfg.TTL
	a.expiry.Fix(l.at)
	got := Assignment{Limit{Rate: rate}, l.until}
	if a.cfg.Limit.Rate > 0 {
		got.Burst = a.cfg.Limit.Burst * (rate / a.cfg.Limit.Rate)
	}
	return got, nil
}

// Knows reports whether a leaf has an assignment. Expire first.
func (a *Allocator) Knows(name string) bool { return a.leaves[name] != nil }

// Leave takes back what a leaf has. The leaf must have stopped using it.
func (a *Allocator) Leave(name string) {
	if l := a.leaves[name]; l != nil {
		a.drop(l)
	}
}

// Expire takes back the assignments whose time to live is over at the instant now. Report
// does so, too.
func (a *Allocator) Expire(now time.Duration) {
	for a.expiry.Len() > 0 && a.expiry.Min().until <= now {
		a.drop(a.expiry.Min())
	}
}

// Leaves returns the number of leaves that have an assignment. Expire first.
func (a *Allocator) Leaves() int { return len(a.leaves) }

func (a *Allocator) drop(l *leaf) {
	a.hold(l, 0)
	a.wants.remove(&l.demand)
	a.expiry.Remove(l.at)
	delete(a.leaves, l.name)
	if len(a.leaves) == 0 {
		a.held = 0 // exactly, also after other quanta
	}
}

func (a *Allocator) hold(l *leaf, rate float64) {
	a.held += rate - l.held
	l.held = rate
}
