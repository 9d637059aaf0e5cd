package server

import (
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/siphash"
)

// keys remember, for a bounded number of keys, which rules match, and how often
// each was asked for. They are a cache: a key that is not in it is looked up in
// the rules. Reading it takes no lock.
//
// A key is known by its fingerprint of 64 bits, as in package keyedtable:
// the text of one that is found is not compared, for that would be one more miss
// of the processor's cache.
type keys struct {
	seed siphash.Key
	sets []keySet
	miss atomic.Uint32
}

// ways is how many keys have their place in one set.
const ways = 4

// A keySet is where the keys of some fingerprints are: a cache line, which tells
// without a look at the keys themselves that one is not there.
type keySet struct {
	prints [ways]atomic.Uint64 // 0: nothing
	keys   [ways]atomic.Pointer[known]
}

// known is a key that is remembered: a cache line.
type known struct {
	print uint64
	key   string
	found *found
	first uint64 // the number of its bucket under the first of its rules

	allowed, denied atomic.Uint64 // requests since it is remembered
	denials         atomic.Uint32 // since a window of its first rule began, or its bucket was full
	faded           atomic.Uint32 // how many of the requests do not count for its weight any more, modulo 2³²
}

// found are the rules of a set that match a key.
type found struct {
	set   uint64 // its id; 0: of none
	rules []*Rule
}

// first returns the number of the bucket that a key has under the first rule; 0
// if that has none.
func (f *found) first(key string) uint64 {
	if len(f.rules) == 0 || !f.rules[0].Quoted() {
		return 0
	}
	return f.rules[0].live.buckets.number(f.rules[0].bucket(key))
}

func newKeys(n int) *keys {
	return &keys{seed: siphash.New(), sets: make([]keySet, 1<<bits.Len(uint(max(n/ways, 1)-1)))}
}

// keepOne in so many keys that find their set full is remembered at once, so
// that a flood of keys which come only once costs little.
const keepOne = 32

// longest is how long a key may be to be remembered, in bytes.
const longest = 256

// find returns what is known of a key under the present rules, nil if it is not
// remembered; its rules; and its fingerprint.
func (k *keys) find(key string, rules *ruleset) (*known, []*Rule, uint64) {
	print := k.print(key)
	set := k.set(print)
	free := -1
	for i := range set.prints {
		switch set.prints[i].Load() {
		case print:
			e := set.keys[i].Load()
			if e.print != print { // it has just made room
				continue
			}
			if e.found.set != rules.id {
				e = set.put(i, e, e.under(rules.find(key)))
			}
			return e, e.found.rules, print
		case 0:
			free = i
		}
	}
	found := rules.find(key)
	if len(key) > longest || free < 0 && k.miss.Add(1)%keepOne != 0 {
		return nil, found.rules, print
	}
	var old *known
	if free < 0 {
		free, old = set.least()
	}
	e := set.put(free, old, &known{print: print, key: strings.Clone(key), found: found, first: found.first(key)})
	return e, e.found.rules, print
}

// print returns the fingerprint of a key; never 0.
func (k *keys) print(key string) uint64 { return max(k.seed.String(key), 1) }

func (k *keys) set(print uint64) *keySet { return &k.sets[print&uint64(len(k.sets)-1)] }

// under is what is known of a key under other rules.
func (e *known) under(f *found) *known {
	n := &known{print: e.print, key: e.key, found: f, first: f.first(e.key)}
	n.allowed.Store(e.allowed.Load())
	n.denied.Store(e.denied.Load())
	n.denials.Store(e.denials.Load())
	n.faded.Store(e.faded.Load())
	return n
}

// put writes one place, and returns what is there; if another key has come there
// meanwhile, what would have been, which is forgotten. Two places may remember the
// same key: no harm, for both are right.
func (set *keySet) put(i int, old, e *known) *known {
	if !set.keys[i].CompareAndSwap(old, e) {
		if now := set.keys[i].Load(); now.print == e.print && now.found.set == e.found.set {
			return now
		}
		return e
	}
	for now := e; set.prints[i].Load() != now.print; now = set.keys[i].Load() {
		set.prints[i].Store(now.print)
	}
	return e
}

// outdate lets go of the rules that were found, so that those which are gone
// hold no memory.
func (k *keys) outdate() {
	for s := range k.sets {
		for i := range k.sets[s].keys {
			if e := k.sets[s].keys[i].Load(); e != nil {
				k.sets[s].keys[i].CompareAndSwap(e, e.under(new(found)))
			}
		}
	}
}

// least returns the place of the key that was asked for least of late, and what is
// there. What was asked before fades.
func (set *keySet) least() (at int, what *known) {
	least := ^uint32(0)
	for i := range set.keys {
		e := set.keys[i].Load()
		all := uint32(e.allowed.Load() + e.denied.Load())
		weight := all - e.faded.Load()
		e.faded.Store(all - weight/2)
		if what == nil || weight < least {
			at, what, least = i, e, weight
		}
	}
	return at, what
}

// get returns a key if it is remembered.
func (k *keys) get(key string) *known {
	print := k.print(key)
	set := k.set(print)
	for i := range set.keys {
		if e := set.keys[i].Load(); e != nil && e.print == print {
			return e
		}
	}
	return nil
}

// all yields the keys that are remembered.
func (k *keys) all(yield func(*known) bool) {
	for s := range k.sets {
		for i := range k.sets[s].keys {
			if e := k.sets[s].keys[i].Load(); e != nil && !yield(e) {
				return
			}
		}
	}
}

// count counts a request: one that was denied, or one that was allowed and, if it
// is fresh, the first to use tokens.
func (e *known) count(ok, fresh bool) {
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

// number returns that of the key's bucket under the rule r, the i-th of its rules.
func (e *known) number(i int, r *Rule, key string) uint64 {
	if e != nil && i == 0 {
		return e.first
	}
	return r.live.buckets.number(r.bucket(key))
}
