package assign

import (
	"iter"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/snapshot/state"
)

// learnFor is how long a start learns what leaves have: each one that can reach the node reports in that time.
const learnFor = LongestInterval

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

// originOf returns where a leaf comes from that has another name for each connection: the part of its name before the
// last #. It is empty for other leaves.
func originOf(name string) string {
	return name[:max(strings.LastIndexByte(name, '#'), 0)]
}

// departed is how long a leaf of an origin, that is there, has not reported a key at most: two reports follow within LongestInterval.
const departed = LongestInterval * 3 / 2

// inStep reports whether a leaf that reports now may be one that has last reported some time ago: it does so every LongestInterval.
func inStep(ago time.Duration) bool {
	const slack = LongestInterval / 10
	return ago >= LongestInterval-slack && (ago+slack)%LongestInterval < 2*slack
}

// takeOver has a leaf that has nothing, or a guess, take an assignment over from a leaf of its origin that is gone: one that reported in
// step with it or, of equal ones, the smallest by which it can have used as much as it says, or else the greatest. It returns what the leaf has
// then: was if there is none, or if one in step is not known to be gone.
func (ls *leaves) takeOver(by *leafSession, was *holding, print uint64, has float64, now time.Duration) (found *holding) {
	if was != nil {
		if !was.guessed {
			return was
		}
		has = was.parts.Held()
	}
	foundInStep, waits := false, false
	for l, h := range ls.others(by, print) {
		ago := now - h.heard
		step := !l.restored && inStep(ago)
		switch {
		case !l.restored && ago <= departed:
			waits = waits || step
		case found == nil || step && !foundInStep || step == foundInStep && nearer(h.parts.Held(), found.parts.Held(), has):
			found, foundInStep = h, step
		}
	}
	if found == nil || waits && !foundInStep {
		return was
	}
	ls.drop(was, now)
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

// mayTakeOver reports whether a leaf may turn out to have an assignment of a leaf of its origin. If it may also have one that is
// not known, that leaf must have reported in step with it.
func (ls *leaves) mayTakeOver(by *leafSession, print uint64, now time.Duration, blind bool) bool {
	for _, h := range ls.others(by, print) {
		if !blind || inStep(now-h.heard) {
			return true
		}
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
	h.leaf, h.guessed = to, false
	to.keys.add(h)
	h.setContended(contended)
	for p := h.parts; p != nil; p = p.next {
		p.Session = &to.session
	}
}

// without removes an assignment that is there.
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
	ls := &e.of.leaves
	if !e.unsure || h.parts.bucket == ls.unlimited || !h.parts.Live() && !e.blind(r.Key) {
		return false
	}
	h.guessed = h.guessed || !h.parts.Live()
	for p := h.parts; p != nil; p = p.next {
		e.give(h, p.bucket)
		if err := p.bucket.Continue(e.now, &p.Member, allocator.Report{Wants: r.Wants, Has: r.Has}); err != nil {
			got.Error = err.Error()
			return true
		}
		e.given(p.bucket)
	}
	got.Learning = true
	return true
}

// blind reports whether a leaf may have an assignment of a key of which the Server knows nothing.
func (e *exchange) blind(key string) bool {
	return e.now < e.of.leaves.blind || e.isNew(key)
}

// savedEach is the number of keys that are saved at once.
const savedEach = 500

// Saved returns what leaves have. Exchanges go on between two values.
func (a *Assigner) Saved() iter.Seq[state.LeafKeys] {
	ls := &a.leaves
	return func(yield func(state.LeafKeys) bool) {
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
func (ls *leaves) savedOf(l *leafSession, keys []*holding) state.LeafKeys {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	some := state.LeafKeys{Name: l.name, Share: l.session.Share, Until: l.session.Until()}
	if l.tenant != nil {
		some.Tenant = l.tenant.name
	}
	for _, h := range keys {
		if l.keys.get(h.print) != h || h.parts.bucket == ls.unlimited {
			continue
		}
		k := state.LeafKey{Key: h.key, At: h.parts.Reported(), Wants: h.parts.Wants(), Rate: h.parts.Held(), Burst: h.parts.HeldBurst()}
		for p := h.parts; p != nil; p = p.next { // the leaf has the smallest of its assignments
			k.Rate, k.Burst = min(k.Rate, p.Held()), min(k.Burst, p.HeldBurst())
		}
		some.Keys = append(some.Keys, k)
	}
	return some
}

// Restore has leaves have what they had, as far as a snapshot says; if that is nil, what they have is learned. It must be called when
// the clock of the node goes on from the snapshot, and before any other use of the Assigner.
func (a *Assigner) Restore(from *state.Reader) error {
	rs, ls, now := a.cfg.Memory.Current(), &a.leaves, a.cfg.Clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.learn(now); from == nil || from.LeafKeysAt == (state.Section{}) || ls.passed {
		return nil
	}
	for some, err := range from.LeafKeys() {
		if err != nil {
			return err
		}
		ended := some.Until+ls.cfg.Reserve <= now
		for i := range some.Keys {
			if k := &some.Keys[i]; !ended || k.At+ls.cfg.TTL > now {
				a.restore(rs, now, &some, k, !from.Ended)
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

// restore has a leaf have what it had of a key, unless there is no room.
func (a *Assigner) restore(rs *memory.Version, now time.Duration, of *state.LeafKeys, k *state.LeafKey, guess bool) {
	ls := &a.leaves
	l, err := ls.enter(of.Name, of.Tenant)
	m := a.cfg.Keys.Find(k.Key, rs.Set).Match
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
	h := ls.add(l, strings.Clone(k.Key), a.cfg.Keys.Print(k.Key))
	e := exchange{of: a, rules: rs, now: now, leaf: l}
	e.follow(h, m)
	for p := h.parts; p != nil; p = p.next {
		p.bucket.Adopt(&p.Member, allocator.Had{Limit: allocator.Limit{Rate: k.Rate, Burst: k.Burst}, Wants: k.Wants, At: k.At, Guess: guess})
	}
}
