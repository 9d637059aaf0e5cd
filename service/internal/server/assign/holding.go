package assign

import (
	"strings"
	"time"

	"github.com/weir-go/weir/internal/prefetch"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// A holding is the assignment of a key by a leaf.
type holding struct {
	leaf  *leafSession
	match *rules.Match
	parts *part  // one for each rule that limits the key, at least one
	print uint64 // identifies the key

	listed    bool // in leafSession.watch
	watched   bool // the leaf should report the key
	contended bool
	heard     time.Duration // when its leaf last reported
	guessed   bool          // its leaf has not said which assignment it goes on with
	first     part          // room for one of the parts
	key       string
}

// A part is a holding under one rule.
type part struct {
	allocator.Member
	bucket *Bucket
	next   *part
}

// A Bucket is a bucket of a rule that leaves share.
type Bucket struct {
	allocator.Allocator
	in    *memory.State
	name  string
	rules uint64 // rules.ID of its limit
	place int    // in leaves.buckets
	beside
}

// Of reports whether it is a bucket of a rule.
func (b *Bucket) Of(r memory.Rule) bool { return b.in == r.State }

// alive returns an assignment, or nil if it has ended; h may be nil.
func (ls *leaves) alive(h *holding, now time.Duration) *holding {
	if h == nil {
		return nil
	}
	for p := h.parts; p != nil; p = p.next {
		p.bucket.Expire(now)
	}
	if len(ls.ended) == 0 {
		return h
	}
	ls.dropEnded(now)
	return h.leaf.keys.get(h.print)
}

// noMatch is the match of a holding that follows no rules yet.
var noMatch = new(rules.Match)

// add adds an assignment. It keeps the key.
func (ls *leaves) add(l *leafSession, key string, print uint64) *holding {
	h := &holding{leaf: l, key: key, print: print, match: noMatch}
	l.keys.add(h)
	ls.count(l, 1)
	return h
}

// drop gives an assignment back; h may be nil.
func (ls *leaves) drop(h *holding, now time.Duration) {
	if h == nil {
		return
	}
	for p := h.parts; p != nil; p = p.next {
		p.Leave(now)
	}
	h.setContended(false)
	h.watched = false
	h.leaf.keys.remove(h)
	ls.count(h.leaf, -1)
}

func (h *holding) setContended(c bool) {
	switch {
	case c && !h.contended:
		h.leaf.contended++
	case h.contended && !c:
		h.leaf.contended--
	}
	h.contended = c
}

// takeWatch appends the keys that the leaf should report. They stay until it does.
func (l *leafSession) takeWatch(keys []string) []string {
	kept := l.watch[:0]
	for _, h := range l.watch {
		if h.listed = h.watched; h.listed {
			kept = append(kept, h)
			if len(keys) < maxWatched {
				keys = append(keys, h.key)
			}
		}
	}
	clear(l.watch[len(kept):])
	l.watch = kept
	return keys
}

// follow makes an assignment one of the rules of a match. Parts of buckets that it had
// stay.
func (e *exchange) follow(h *holding, m *rules.Match) {
	h.match = m
	old := h.parts
	h.parts = nil
	for i := len(m.Rated) - 1; i >= 0; i-- {
		if r := m.Rated[i]; r.Mode != config.Shadow {
			h.addPart(&old, e.bucket(e.rules.At(r), h))
		}
	}
	if h.parts == nil {
		h.addPart(&old, e.of.leaves.unlimited)
	}
	for ; old != nil; old = old.next {
		old.Leave(e.now)
	}
}

// addPart adds the part of a bucket: one of old, or a new one.
func (h *holding) addPart(old **part, b *Bucket) {
	for at := old; *at != nil; at = &(*at).next {
		if p := *at; p.bucket == b {
			*at, p.next, h.parts = p.next, h.parts, p
			return
		}
	}
	p := &h.first
	if p.bucket != nil {
		p = new(part)
	}
	p.Owner, p.Session, p.bucket, p.next = h, &h.leaf.session, b, h.parts
	h.parts = p
}

// bucket returns the bucket of a key under a rule, which may be new, with the limit that the rule
// has now.
func (e *exchange) bucket(r memory.Rule, h *holding) *Bucket {
	ls, name := &e.of.leaves, r.Bucket(h.key)
	b := ls.shared[r.State].get(name)
	if b == nil {
		b = &Bucket{in: r.State, name: strings.Clone(name), place: len(ls.buckets)}
		b.Init(e.of.sharing(h.key, e.now))
		b.since = e.now
		ls.share(b)
		ls.buckets = append(ls.buckets, b)
	}
	if h.key == name {
		h.key = b.name // the same memory for all leaves
	}
	if b.rules != e.rules.ID {
		b.rules = e.rules.ID
		if e.of.cfg.Source == nil {
			b.SetLimit(LimitOf(memory.Divided(r.Quota, e.of.cfg.Memory.Instances())))
		}
		b.SetReserves(reserves[r.Away])
	}
	return b
}

// reserves tells for which lost leaves a part of a limit is kept, by config.Rule.Away: for leaves that go on with it.
var reserves = map[config.Away]allocator.Reserves{
	"": allocator.ReserveSharing, config.AwayShare: allocator.ReserveAll, config.AwayDeny: allocator.ReserveNone, config.AwayAllow: allocator.ReserveNone,
}

// LimitOf returns a quota as leaves share it.
func LimitOf(q config.Quota) allocator.Limit {
	return allocator.Limit{Rate: q.PerSecond(), Burst: float64(q.Limit())}
}

// removeBucket removes a bucket without assignments.
func (ls *leaves) removeBucket(b *Bucket) {
	ls.unshare(b)
	last := len(ls.buckets) - 1
	ls.buckets[b.place] = ls.buckets[last]
	ls.buckets[b.place].place = b.place
	ls.buckets[last] = nil
	ls.buckets = ls.buckets[:last]
}

// prefetch has the processor fetch an assignment.
func (h *holding) prefetch() {
	prefetch.Line(&h.leaf)
	prefetch.Line(&h.first)
	prefetch.Line(&h.key)
}
