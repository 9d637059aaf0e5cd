package server

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

// keys remember, for a bounded number of keys, which rules match and how often
// each was asked for. They are a cache: the rules of other keys are looked up.
// Reading takes no lock.
//
// A key is identified by a 64-bit fingerprint, as in package keyedtable. The text of a
// key that is found is not compared, because that would be one more cache miss.
type keys struct {
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
	keys   [ways]atomic.Pointer[knownKey]
}

// A knownKey is a key that is remembered: a cache line.
type knownKey struct {
	print       uint64
	key         string
	match       *match
	fingerprint uint64 // identifies the key's bucket under its first rule

	allowed, denied atomic.Uint64 // requests since it is remembered
	denials         atomic.Uint32 // since a window of its first rule began, or its bucket was full
	faded           atomic.Uint32 // requests that do not count for its weight any more, modulo 2³²
}

// fingerprint returns that of the bucket of a key under the first rule with a rate; 0
// if there is none.
func (m *match) fingerprint(key string) uint64 {
	if len(m.rated) == 0 {
		return 0
	}
	return m.rated[0].fingerprint(key)
}

func newKeys(n int) *keys {
	return &keys{seed: siphash.New(), sets: make([]keySet, 1<<bits.Len(uint(max(n/ways, 1)-1))),
		long: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// keepOne is how many new keys that find their set full there are for one that
// replaces another key at once. So a flood of keys that come once costs little.
const keepOne = 32

// maxKeyLen bounds the keys that are remembered, in bytes.
const maxKeyLen = 256

// A found key has the rules and the counts of a key.
type found struct {
	known *knownKey // nil if it is not remembered
	match *match
	print uint64
	own   uint64 // fingerprint of the bucket for the quota that the request brings; 0 if it is not known
}

// find finds a key.
func (k *keys) find(key string, rs *rules) found { return k.findPrint(key, k.print(key), rs) }

// findStep is how many bytes of keys findAll looks up before it looks again whether the
// caller has left.
const findStep = 4 << 10

// findAll appends the keys of requests. If ctx ends, it has found some, and the error is that
// of ctx. It has the memory of all keys fetched first, so that the processor waits for all of it
// at once.
func (k *keys) findAll(ctx context.Context, reqs []decider.Request, rs *rules, keys []found) ([]found, error) {
	keys = slices.Grow(keys, len(reqs))
	for i := range reqs {
		print := k.print(reqs[i].Key)
		prefetch.Line(k.set(print))
		keys = append(keys, found{print: print})
	}
	for i := range keys {
		prefetch.Line(k.set(keys[i].print).known(keys[i].print))
	}
	for i, step := 0, 0; i < len(reqs); i++ {
		if step += len(reqs[i].Key); step > findStep {
			step = 0
			if err := ctx.Err(); err != nil {
				return keys[:i], err
			}
		}
		keys[i] = k.findPrint(reqs[i].Key, keys[i].print, rs)
	}
	return keys, nil
}

// known returns the key with a fingerprint, or nil.
func (set *keySet) known(print uint64) *knownKey {
	for i := range set.prints {
		if set.prints[i].Load() == print {
			return set.keys[i].Load()
		}
	}
	return nil
}

// findPrint finds a key by its fingerprint.
func (k *keys) findPrint(key string, print uint64, rs *rules) found {
	set := k.set(print)
	free := -1
	for i := range set.prints {
		switch set.prints[i].Load() {
		case print:
			e := set.keys[i].Load()
			if e.print != print { // another key has just replaced it
				continue
			}
			if e.match.rules != rs.id {
				e = set.put(i, e, e.with(rs.find(key)))
			}
			return found{known: e, match: e.match, print: print}
		case 0:
			free = i
		}
	}
	m := k.rulesOf(key, rs)
	if len(key) > maxKeyLen || free < 0 && k.miss.Add(1)%keepOne != 0 {
		return found{match: m, print: print}
	}
	var old *knownKey
	if free < 0 {
		free, old = set.least()
	}
	e := set.put(free, old, &knownKey{print: print, key: strings.Clone(key), match: m, fingerprint: m.fingerprint(key)})
	return found{known: e, match: e.match, print: print}
}

// rulesOf looks up the rules of a key. Keys that are too long to be remembered are
// looked up each time, against each regex, and so by half of the processors at most.
func (k *keys) rulesOf(key string, rs *rules) *match {
	if len(key) <= maxKeyLen {
		return rs.find(key)
	}
	k.long <- struct{}{}
	defer func() { <-k.long }()
	return rs.find(key)
}

// print returns the fingerprint of a key; never 0.
func (k *keys) print(key string) uint64 { return max(k.seed.String(key), 1) }

func (k *keys) set(print uint64) *keySet { return &k.sets[print&uint64(len(k.sets)-1)] }

// with returns a copy with other rules.
func (e *knownKey) with(m *match) *knownKey {
	n := &knownKey{print: e.print, key: e.key, match: m, fingerprint: m.fingerprint(e.key)}
	n.allowed.Store(e.allowed.Load())
	n.denied.Store(e.denied.Load())
	n.denials.Store(e.denials.Load())
	n.faded.Store(e.faded.Load())
	return n
}

// put replaces old with e, and returns the key that is there now. If another key
// has replaced old meanwhile, it returns e, which is not remembered. A key may be
// in two places; both are right.
func (set *keySet) put(i int, old, e *knownKey) *knownKey {
	if !set.keys[i].CompareAndSwap(old, e) {
		if now := set.keys[i].Load(); now.print == e.print && now.match.rules == e.match.rules {
			return now
		}
		return e
	}
	for now := e; set.prints[i].Load() != now.print; now = set.keys[i].Load() {
		set.prints[i].Store(now.print)
	}
	return e
}

// invalidate drops the rules of all keys, so that rules that are gone can be
// collected.
func (k *keys) invalidate() {
	for e := range k.all {
		set, empty := k.set(e.print), e.with(new(match))
		for i := range set.keys {
			set.keys[i].CompareAndSwap(e, empty)
		}
	}
}

// least returns the key with the fewest recent requests, and its place. The weight
// of earlier requests decreases.
func (set *keySet) least() (at int, key *knownKey) {
	least := ^uint32(0)
	for i := range set.keys {
		e := set.keys[i].Load()
		all := uint32(e.allowed.Load() + e.denied.Load())
		weight := all - e.faded.Load()
		e.faded.Store(all - weight/2)
		if key == nil || weight < least {
			at, key, least = i, e, weight
		}
	}
	return at, key
}

// get returns a key if it is remembered.
func (k *keys) get(key string) *knownKey {
	print := k.print(key)
	if e := k.set(print).known(print); e != nil && e.print == print {
		return e
	}
	return nil // or another key has just replaced it
}

// all yields the keys that are remembered.
func (k *keys) all(yield func(*knownKey) bool) {
	for s := range k.sets {
		for i := range k.sets[s].keys {
			if e := k.sets[s].keys[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}

// count counts a request: one that was denied, or one that was allowed and, if
// fresh is set, the first to use tokens. The key may be nil.
func (e *knownKey) count(ok, fresh bool) {
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

// fingerprintOf returns that of the key's bucket under r, which is the i-th of its
// rules with a rate.
func (e *knownKey) fingerprintOf(i int, r *rule, key string) uint64 {
	if e != nil && i == 0 {
		return e.fingerprint
	}
	return r.fingerprint(key)
}
