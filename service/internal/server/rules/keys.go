package rules

import (
	"context"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/prefetch"
	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Keys remember, for a bounded number of keys, which rules match and how often
// each was asked for. They are a cache: the rules of other keys are looked up.
// Reading takes no lock.
//
// A key is identified by a 64-bit fingerprint, as in package keyedtable. The text of a
// key that is found is not compared, because that would be one more cache miss.
type Keys struct {
	seed siphash.Key
	sets []keySet
	miss atomic.Uint32
	long chan struct{} // holds a place for each lookup of the rules of a long key
}

// ways is the number of keys in a set.
const ways = 4

// A keySet holds the keys of some fingerprints. It is a cache line, which shows
// without access to the keys themselves that one is missing.
type keySet struct {
	prints [ways]atomic.Uint64 // 0: empty
	keys   [ways]atomic.Pointer[Known]
}

// A Known key is one that is remembered: a cache line.
type Known struct {
	print uint64
	key   string
	match *Match
	// Bucket is for the counts: it identifies the key's bucket under the first rule with a rate, or
	// is 0. It is 0 again after Invalidate, and under other rules.
	Bucket atomic.Uint64

	allowed, denied atomic.Uint64 // requests since it is remembered
	denials         atomic.Uint32 // since a window of its first rule began, or its bucket was full
	faded           atomic.Uint32 // requests that do not count for its weight any more, modulo 2³²
}

// NewKeys returns Keys that remember about n keys.
func NewKeys(n int) *Keys {
	return &Keys{seed: siphash.New(), sets: make([]keySet, 1<<bits.Len(uint(max(n/ways, 1)-1))),
		long: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// keepOne is how many new keys that find their set full there are for one that
// replaces another key at once. So a flood of keys that come once costs little.
const keepOne = 32

// MaxKeyLen bounds the keys that are remembered, in bytes.
const MaxKeyLen = 256

// A Found key has the rules and the counts of a key.
type Found struct {
	*Match
	Known *Known // nil if it is not remembered
	Print uint64 // identifies the key
	Own   uint64 // for the counts: identifies the bucket of the quota that the request brings; or 0
}

// Find finds a key.
func (k *Keys) Find(key string, set *Set) Found { return k.findPrint(key, k.Print(key), set) }

// findStep is how many bytes of keys FindAll looks up before it looks again whether the
// caller has left.
const findStep = 4 << 10

// FindAll appends the keys of requests. If ctx ends, it has found some, and the error is that
// of ctx. It has the memory of all keys fetched first, so that the processor waits for all of it
// at once.
func (k *Keys) FindAll(ctx context.Context, reqs []decider.Request, set *Set, keys []Found) ([]Found, error) {
	keys = slices.Grow(keys, len(reqs))
	for i := range reqs {
		print := k.Print(reqs[i].Key)
		prefetch.Line(k.line(print))
		keys = append(keys, Found{Print: print})
	}
	for i := range keys {
		prefetch.Line(k.line(keys[i].Print).known(keys[i].Print))
	}
	for i, step := 0, 0; i < len(reqs); i++ {
		if step += len(reqs[i].Key); step > findStep {
			step = 0
			if err := ctx.Err(); err != nil {
				return keys[:i], err
			}
		}
		keys[i] = k.findPrint(reqs[i].Key, keys[i].Print, set)
	}
	return keys, nil
}

// known returns the key with a fingerprint, or nil.
func (line *keySet) known(print uint64) *Known {
	for i := range line.prints {
		if line.prints[i].Load() == print {
			return line.keys[i].Load()
		}
	}
	return nil
}

// findPrint finds a key by its fingerprint.
func (k *Keys) findPrint(key string, print uint64, set *Set) Found {
	line := k.line(print)
	free := -1
	for i := range line.prints {
		switch line.prints[i].Load() {
		case print:
			e := line.keys[i].Load()
			if e.print != print { // another key has just replaced it
				continue
			}
			if e.match.Set != set {
				e = line.put(i, e, e.with(set.Find(key)))
			}
			return Found{Match: e.match, Known: e, Print: print}
		case 0:
			free = i
		}
	}
	m := k.RulesOf(key, set)
	if len(key) > MaxKeyLen || free < 0 && k.miss.Add(1)%keepOne != 0 {
		return Found{Match: m, Print: print}
	}
	var old *Known
	if free < 0 {
		free, old = line.least()
	}
	e := line.put(free, old, &Known{print: print, key: strings.Clone(key), match: m})
	return Found{Match: e.match, Known: e, Print: print}
}

// RulesOf looks up the rules of a key. Keys that are too long to be remembered are
// looked up each time, against each regex, and so by half of the processors at most.
func (k *Keys) RulesOf(key string, set *Set) *Match {
	if len(key) <= MaxKeyLen {
		return set.Find(key)
	}
	defer k.EnterLong()()
	return set.Find(key)
}

// EnterLong takes one of the places for lookups of long keys, until leave is called.
func (k *Keys) EnterLong() (leave func()) {
	k.long <- struct{}{}
	return func() { <-k.long }
}

// Print returns the fingerprint of a key; never 0.
func (k *Keys) Print(key string) uint64 { return max(k.seed.String(key), 1) }

func (k *Keys) line(print uint64) *keySet { return &k.sets[print&uint64(len(k.sets)-1)] }

// with returns a copy with other rules.
func (e *Known) with(m *Match) *Known {
	n := &Known{print: e.print, key: e.key, match: m}
	n.allowed.Store(e.allowed.Load())
	n.denied.Store(e.denied.Load())
	n.denials.Store(e.denials.Load())
	n.faded.Store(e.faded.Load())
	return n
}

// put replaces old with e, and returns the key that is there now. If another key
// has replaced old meanwhile, it returns e, which is not remembered. A key may be
// in two places; both are right.
func (line *keySet) put(i int, old, e *Known) *Known {
	if !line.keys[i].CompareAndSwap(old, e) {
		if now := line.keys[i].Load(); now.print == e.print && now.match.Set == e.match.Set {
			return now
		}
		return e
	}
	for now := e; line.prints[i].Load() != now.print; now = line.keys[i].Load() {
		line.prints[i].Store(now.print)
	}
	return e
}

// Invalidate drops the rules of all keys, so that rules that are gone can be
// collected.
func (k *Keys) Invalidate() {
	for e := range k.All {
		line, empty := k.line(e.print), e.with(new(Match))
		for i := range line.keys {
			line.keys[i].CompareAndSwap(e, empty)
		}
	}
}

// least returns the key with the fewest recent requests, and its place. The weight
// of earlier requests decreases.
func (line *keySet) least() (at int, key *Known) {
	least := ^uint32(0)
	for i := range line.keys {
		e := line.keys[i].Load()
		all := uint32(e.allowed.Load() + e.denied.Load())
		weight := all - e.faded.Load()
		e.faded.Store(all - weight/2)
		if key == nil || weight < least {
			at, key, least = i, e, weight
		}
	}
	return at, key
}

// Get returns a key if it is remembered, or nil.
func (k *Keys) Get(key string) *Known {
	print := k.Print(key)
	if e := k.line(print).known(print); e != nil && e.print == print {
		return e
	}
	return nil // or another key has just replaced it
}

// All yields the keys that are remembered.
func (k *Keys) All(yield func(*Known) bool) {
	for s := range k.sets {
		for i := range k.sets[s].keys {
			if e := k.sets[s].keys[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}

// Count counts a request: one that was denied, or one that was allowed and, if
// fresh is set, the first to use tokens. The key may be nil.
func (e *Known) Count(ok, fresh bool) {
	if e == nil {
		return
	}
	if !ok {
		e.denied.Add(1)
		e.denials.Add(1)
		return
	}
	if fresh && e.denials.Load() > 0 {
		e.denials.Store(0)
	}
	e.allowed.Add(1)
}

// Key returns the text of the key.
func (e *Known) Key() string { return e.key }

// Match returns the rules of a Set that count for the key.
func (e *Known) Match(set *Set) *Match {
	if e.match.Set != set {
		return set.Find(e.key)
	}
	return e.match
}

// Requests returns the requests since the key is remembered.
func (e *Known) Requests() (allowed, denied uint64) { return e.allowed.Load(), e.denied.Load() }

// Denials returns the denied requests since a window of its first rule began, or its bucket was
// full. The key may be nil.
func (e *Known) Denials() uint64 {
	if e == nil {
		return 0
	}
	return uint64(e.denials.Load())
}

// ForgetDenials ends that count. The key may be nil.
func (e *Known) ForgetDenials() {
	if e != nil {
		e.denials.Store(0)
	}
}
