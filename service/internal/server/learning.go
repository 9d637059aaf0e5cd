package server

import (
	"iter"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/memory"
	snapshot "github.com/weir-go/weir/service/internal/server/state"
)

// learnFor is how long a start learns what leaves have: each one that can reach the node reports in that time.
const learnFor = longestInterval

// learning bounds how long after a start there may be leaves that the Server does not know. Until leaves.cfg.Learn, leaves get what they say
// they have.
type learning struct {
	blind   time.Duration // until then, a leaf may have an assignment of a process that has left no word of it
	awaited int           // leaves that Restore has brought and of which nothing was heard: without them, there is nothing to learn
}

// learn begins to learn.
func (ls *leaves) learn(now time.Duration) {
	ls.blind, ls.cfg.Learn = now+ls.cfg.TTL, now+min(learnFor, ls.cfg.TTL)
}

// heard notes that a leaf is back, or is no more awaited.
func (ls *leaves) heard(l *leafSession) {
	if !l.awaited {
		return
	}
	if l.awaited = false; ls.awaited > 1 {
		ls.awaited--
		return
	}
	ls.awaited, ls.cfg.Learn = 0, 0
}

// First tells that no process was before this one, so that no leaf has anything. It must be called before any other use of the
// Server.
func (s *Server) First() {
	s.leaves.blind, s.leaves.cfg.Learn = 0, 0
}

// originOf returns where a leaf comes from that has another name for each connection: the part of its name before the
// last #. It is empty for other leaves.
func originOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '#'), 0)]
}

// departed is how long a leaf of an origin, that is there, has not reported a key at most: two reports follow within longestInterval.
const departed = longestInterval * 3 / 2

// takeOver has a leaf take an assignment over from a leaf of its origin that is gone: the smallest one by which it can have used
// as much as it says, or else the greatest. It returns nil if there is none.
func (ls *leaves) takeOver(by *leafSession, print uint64, has float64, now time.Duration) (found *holding) {
	for l, h := range ls.others(by, print) {
		if gone := l.restored || now-h.parts.Reported() > departed; gone && (found == nil || nearer(h.parts.Held(), found.parts.Held(), has)) {
			found = h
		}
	}
	if found == nil {
		return nil
	}
	ls.heard(found.leaf)
	ls.move(found, by)
	return found
}

// nearer reports whether an assignment of a rate is more likely than another one of a leaf that uses a rate.
func nearer(rate, other, used float64) bool {
	least := used * (1 - shrunk)
	if other < least {
		return rate > other
	}
	return rate >= least && rate < other
}

// mayTakeOver reports whether a leaf may turn out to have an assignment of a leaf of its origin.
func (ls *leaves) mayTakeOver(by *leafSession, print uint64) bool {
	for range ls.others(by, print) {
		return true
	}
	return false
}

// others returns the assignments of a key by other leaves of the origin and the tenant of a leaf.
func (ls *leaves) others(of *leafSession, print uint64) iter.Seq2[*leafSession, *holding] {
	return func(yield func(*leafSession, *holding) bool) {
		for _, l := range ls.origins[originOf(of.name)] {
			if l == of || l.tenant != of.tenant {
				continue
			}
			if h := l.keys.get(print); h != nil && h.parts.bucket != ls.unlimited && !yield(l, h) {
				return
			}
		}
	}
}

// move makes an assignment one of another leaf of its tenant.
func (ls *leaves) move(h *holding, to *leafSession) {
	from := h.leaf
	contended := h.contended
	h.setContended(false)
	from.keys.remove(h)
	if h.listed {
		from.watch = without(from.watch, h)
		h.listed, h.watched = false, false
	}
	h.leaf = to
	to.keys.add(h)
	h.setContended(contended)
	for p := h.parts; p != nil; p = p.next {
		p.Session = &to.session
	}
}

func without(all []*holding, h *holding) []*holding {
	for i := range all {
		if all[i] == h {
			last := len(all) - 1
			all[i], all[last] = all[last], nil
			return all[:last]
		}
	}
	return all
}

// continues has a leaf that is unsure go on with what it has, if that may be something, and reports whether it does.
func (e *exchange) continues(h *holding, r *leaf.Report, got *leaf.Assignment) bool {
	ls := &e.server.leaves
	if !e.unsure || h.parts.bucket == ls.unlimited || !h.parts.Live() && !e.blind(r.Key) {
		return false
	}
	for p := h.parts; p != nil; p = p.next {
		if err := p.bucket.Continue(e.now, &p.Member, allocator.Report{Wants: r.Wants, Has: r.Has}); err != nil {
			got.Error = err.Error()
			return true
		}
		p.bucket.note(e.now)
	}
	got.Learning = true
	return true
}

// blind reports whether a leaf may have an assignment of a key of which the Server knows nothing.
func (e *exchange) blind(key string) bool {
	return e.now < e.server.leaves.blind || e.server.owned.isNew(e.now, e.server, key)
}

// savedEach is the number of keys that are saved at once.
const savedEach = 500

// saved returns what leaves have. Exchanges go on between two values.
func (ls *leaves) saved() iter.Seq[snapshot.LeafKeys] {
	return func(yield func(snapshot.LeafKeys) bool) {
		ls.mu.Lock()
		all := make([]*leafSession, 0, len(ls.byName))
		for _, l := range ls.byName {
			all = append(all, l)
		}
		ls.mu.Unlock()
		for _, l := range all {
			ls.mu.Lock()
			keys := l.keys.all()
			ls.mu.Unlock()
			for len(keys) > 0 {
				n := min(len(keys), savedEach)
				if some := ls.savedOf(l, keys[:n]); len(some.Keys) > 0 && !yield(some) {
					return
				}
				keys = keys[n:]
			}
		}
	}
}

// savedOf returns what a leaf has of some keys.
func (ls *leaves) savedOf(l *leafSession, keys []*holding) snapshot.LeafKeys {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	some := snapshot.LeafKeys{Name: l.name, Share: l.session.Share, Until: l.session.Until()}
	if l.tenant != nil {
		some.Tenant = l.tenant.name
	}
	for _, h := range keys {
		if l.keys.get(h.print) != h || h.parts.bucket == ls.unlimited {
			continue
		}
		k := snapshot.LeafKey{Key: h.key, At: h.parts.Reported(), Wants: h.parts.Wants(), Rate: h.parts.Held(), Burst: h.parts.HeldBurst()}
		for p := h.parts; p != nil; p = p.next { // the leaf has the smallest of its assignments
			k.Rate, k.Burst = min(k.Rate, p.Held()), min(k.Burst, p.HeldBurst())
		}
		some.Keys = append(some.Keys, k)
	}
	return some
}

// restoreLeaves has leaves have what they had.
func (s *Server) restoreLeaves(rs *memory.Version, from *snapshot.Reader) error {
	ls, now := &s.leaves, s.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.learn(now); from.LeafKeysAt == (snapshot.Section{}) || s.tier != nil || s.cfg.Fleet != "" {
		return nil
	}
	for some, err := range from.LeafKeys() {
		if err != nil {
			return err
		}
		ended := some.Until+ls.cfg.Reserve <= now
		for i := range some.Keys {
			if k := &some.Keys[i]; !ended || k.At+ls.cfg.TTL > now {
				s.restoreLeaf(rs, now, &some, k, !from.Ended)
			}
		}
	}
	for _, b := range ls.buckets {
		b.Expire(now)
		b.note(now)
	}
	ls.dropEnded(now)
	if from.Ended {
		ls.blind = 0
	}
	if ls.awaited == 0 {
		ls.cfg.Learn = 0
	}
	return nil
}

// restoreLeaf has a leaf have what it had of a key, unless there is no room.
func (s *Server) restoreLeaf(rs *memory.Version, now time.Duration, of *snapshot.LeafKeys, k *snapshot.LeafKey, guess bool) {
	ls := &s.leaves
	l, err := ls.enter(of.Name, of.Tenant)
	m := s.keys.Find(k.Key, rs.Set).Match
	if err != nil || ls.full(l) || m.Dated() {
		return
	}
	if len(l.keys.slots) == 0 {
		l.restored, l.session.Share = true, of.Share
		if of.Until > 0 {
			ls.renew(l, of.Until)
		}
		if guess {
			l.awaited = true
			ls.awaited++
		}
	}
	h := ls.add(l, strings.Clone(k.Key), s.keys.Print(k.Key))
	e := exchange{server: s, rules: rs, now: now, leaf: l}
	e.follow(h, m)
	for p := h.parts; p != nil; p = p.next {
		p.bucket.Adopt(&p.Member, allocator.Had{Limit: allocator.Limit{Rate: k.Rate, Burst: k.Burst}, Wants: k.Wants, At: k.At, Guess: guess})
	}
}
