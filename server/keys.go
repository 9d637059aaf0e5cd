package server

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync/atomic"
)

// keys remember, for a bounded number of keys, which rules match, and how often
// each was asked for. They are a cache: a key that is not in it is looked up in
// the rules. Reading it takes no lock.
type keys struct {
	seed maphash.Seed
	sets []keySet
	miss atomic.Uint32
}

// ways is how many keys have their place in one set.
const ways = 4

// A keySet is where the keys of some hashes are: a cache line, most of which
// tells without a look at the keys themselves that one is not there.
type keySet struct {
	tags [ways]atomic.Uint32 // of the hashes
	keys [ways]atomic.Pointer[known]
	_    [16]byte
}

// known is a key that is remembered.
type known struct {
	key   string
	set   uint64 // of the rules that match, its id
	rules []*Rule

	allowed, denied atomic.Uint64 // requests since it is remembered
	weight          atomic.Uint32 // how often of late: who has least makes room
	denials         atomic.Uint64 // since a window of its first rule began, or its bucket was full
}

func newKeys(n int) *keys {
	return &keys{seed: maphash.MakeSeed(), sets: make([]keySet, 1<<bits.Len(uint(max(n/ways, 1)-1)))}
}

// keepOne in so many keys that find their set full is remembered at once, so
// that a flood of keys which come only once costs little.
const keepOne = 8

// longest is how long a key may be to be remembered, in bytes.
const longest = 256

// find returns what is known of a key under the present rules, nil if it is not
// remembered; its rules; and its hash.
func (k *keys) find(key string, rules *ruleset) (*known, []*Rule, uint64) {
	h := maphash.String(k.seed, key)
	set, tag := &k.sets[h&uint64(len(k.sets)-1)], uint32(h>>32)|1
	free := -1
	for i := range set.tags {
		switch set.tags[i].Load() {
		case tag:
			e := set.keys[i].Load()
			if e == nil || e.key != key {
				continue
			}
			if e.set != rules.id {
				e = k.put(set, i, tag, e.under(rules.id, rules.find(key)))
			}
			return e, e.rules, h
		case 0:
			free = i
		}
	}
	found := rules.find(key)
	if len(key) > longest || free < 0 && k.miss.Add(1)%keepOne != 0 {
		return nil, found, h
	}
	e := &known{key: strings.Clone(key), set: rules.id, rules: found}
	if free < 0 {
		free = set.least()
	}
	return k.put(set, free, tag, e), found, h
}

// under is what is known of a key under other rules.
func (e *known) under(set uint64, rules []*Rule) *known {
	n := &known{key: e.key, set: set, rules: rules}
	n.allowed.Store(e.allowed.Load())
	n.denied.Store(e.denied.Load())
	n.weight.Store(e.weight.Load())
	n.denials.Store(e.denials.Load())
	return n
}

// put writes one place. Of two that write it at once one is forgotten, and two
// may remember the same key: no harm, for both are right.
func (k *keys) put(set *keySet, i int, tag uint32, e *known) *known {
	set.keys[i].Store(e)
	set.tags[i].Store(tag)
	return e
}

// outdate lets go of the rules that were found, so that those which are gone
// hold no memory.
func (k *keys) outdate() {
	for s := range k.sets {
		for i := range k.sets[s].keys {
			if e := k.sets[s].keys[i].Load(); e != nil {
				k.sets[s].keys[i].CompareAndSwap(e, e.under(0, nil))
			}
		}
	}
}

// least returns the place of the key that was asked for least of late.
func (set *keySet) least() int {
	at, least := 0, ^uint32(0)
	for i := range set.keys {
		e := set.keys[i].Load()
		if e == nil {
			return i
		}
		w := e.weight.Load()
		e.weight.Store(w / 2)
		if w < least {
			at, least = i, w
		}
	}
	return at
}

// get returns a key if it is remembered.
func (k *keys) get(key string) *known {
	h := maphash.String(k.seed, key)
	set := &k.sets[h&uint64(len(k.sets)-1)]
	for i := range set.keys {
		if e := set.keys[i].Load(); e != nil && e.key == key {
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
	switch {
	case !ok:
		e.denied.Add(1)
		e.denials.Add(1)
	case fresh:
		e.denials.Store(0)
		fallthrough
	default:
		e.allowed.Add(1)
	}
	if w := e.weight.Load(); w < 1<<30 {
		e.weight.Store(w + 1)
	}
}
