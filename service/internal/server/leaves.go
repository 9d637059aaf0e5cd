package server

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/memory"
)

// How long a leaf may be silent, in times to live.
const (
	silence = 16 // about one key: after that, the assignment of the key has ended
	reserve = 10 // about all keys: after that, nothing is kept for the leaf any more
)

// Bounds of leaves. An assignment takes 300 to 750 bytes.
const (
	maxLeaves = 20_000
	// maxWatched bounds the keys that an answer asks reports of; others follow in the next.
	maxWatched = 10_000
	// droppedEach is the number of assignments that one exchange takes back at most of leaves
	// that have left.
	droppedEach = 2_000
	// lookedEach is the number of assignments that one exchange looks at at most, of leaves whose
	// sessions have ended.
	lookedEach = 10_000
)

// leaves are the processes that have assignments. The zero value is not usable: see init.
type leaves struct {
	mu     sync.Mutex // guards what follows, and the buckets of all rules
	byName map[string]*leafSession
	most   int // assignments
	held   int // assignments of keys, of all leaves

	tenants      map[string]*leafTenant // by name; that have leaves or assignments
	unrestricted int                    // leaves without a tenant

	cfg       allocator.Config // of all allocators, but for their limits
	unlimited *shareBucket     // of keys that no rule limits: a bound on how long they are held
	ended     []*holding       // ended assignments, in an Allocator
	left      []*leafSession   // with assignments to take back
	sessions                   // that may be lost
	learning
	origins map[string][]*leafSession // by originOf, unless that is empty
	shared  map[*memory.State]*shareBuckets
	buckets []*shareBucket // to sweep: but for unlimited
	place   int            // of the next to sweep
	swept   time.Duration  // when sweep was last called
	cleaned time.Duration  // when leaves without keys were last removed

	relayed map[*shareBucket]struct{} // of which a Tier passes its assignment on

	exchanges, reports, refused uint64
	tenantRefused               uint64 // of refused, those of leaves of tenants
}

// A leafTenant is a token that does not allow all keys, with what its leaves have.
type leafTenant struct {
	name   string
	leaves int
	held   int // assignments of keys
}

// A leafSession is a leaf with its assignments.
type leafSession struct {
	name      string
	tenant    *leafTenant // nil: it may use all keys
	session   allocator.Session
	keys      holdings
	watch     []*holding // that the leaf should report
	rules     uint64     // rules.ID of its last exchange
	contended int        // number of keys with a contended limit

	check time.Duration // when its session ends, if it has not been renewed since
	at    int           // in sessions.ends; less than 0: it has not been renewed since its end
	lost  []*holding    // to look at, since its session has ended

	awaited  bool // in learning.awaited
	restored bool // by Restore; it has not exchanged since
}

// init makes the leaves usable.
func (ls *leaves) init(ttl time.Duration, most int) {
	ls.byName, ls.most, ls.tenants, ls.origins = map[string]*leafSession{}, most, map[string]*leafTenant{}, map[string][]*leafSession{}
	ls.shared = map[*memory.State]*shareBuckets{}
	ls.relayed = map[*shareBucket]struct{}{}
	ls.cfg = allocator.Config{TTL: ttl, Silence: silence * ttl, Reserve: reserve * ttl, Looks: true, Watch: watch, Ended: ls.end}
	ls.sessions.init()
	ls.unlimited = new(shareBucket)
	ls.unlimited.Init(&ls.cfg)
	ls.unlimited.SetReserves(allocator.ReserveNone)
}

// watch asks for a report of a key.
func watch(m *allocator.Member) {
	h, ok := m.Owner.(*holding)
	if !ok { // the node itself
		return
	}
	if h.watched = true; !h.listed {
		h.listed = true
		h.leaf.watch = append(h.leaf.watch, h)
	}
}

// end records an assignment that has ended in an Allocator.
func (ls *leaves) end(m *allocator.Member) {
	if h, ok := m.Owner.(*holding); ok { // else it is the node itself
		ls.ended = append(ls.ended, h)
	}
}

// enter returns the leaf with a name, which may be new. The tenant of a leaf does not change.
func (ls *leaves) enter(name, tenant string) (*leafSession, error) {
	l := ls.byName[name]
	if l == nil {
		t := ls.tenants[tenant]
		if free := maxLeaves - len(ls.byName); free <= 0 || t != nil && t.leaves >= free {
			ls.refuse(tenant != "")
			return nil, decider.ErrLeaves
		}
		if t == nil && tenant != "" {
			t = &leafTenant{name: strings.Clone(tenant)}
			ls.tenants[t.name] = t
		}
		l = &leafSession{name: strings.Clone(name), tenant: t, at: -1}
		if at := originOf(l.name); at != "" {
			ls.origins[at] = append(ls.origins[at], l)
		}
		if ls.byName[l.name] = l; t != nil {
			t.leaves++
		} else {
			ls.unrestricted++
		}
	}
	return l, nil
}

// remove forgets the name of a leaf.
func (ls *leaves) remove(l *leafSession) {
	delete(ls.byName, l.name)
	ls.heard(l)
	if at := originOf(l.name); at != "" {
		if ls.origins[at] = slices.DeleteFunc(ls.origins[at], func(m *leafSession) bool { return m == l }); len(ls.origins[at]) == 0 {
			delete(ls.origins, at)
		}
	}
	if t := l.tenant; t != nil {
		t.leaves--
		ls.forget(t)
	} else {
		ls.unrestricted--
	}
}

// forget forgets a tenant that has nothing.
func (ls *leaves) forget(t *leafTenant) {
	if t.leaves == 0 && t.held == 0 {
		delete(ls.tenants, t.name)
	}
}

// count counts assignments of a leaf that have come (1) or gone (-1).
func (ls *leaves) count(l *leafSession, n int) {
	ls.held += n
	if t := l.tenant; t != nil {
		t.held += n
		ls.forget(t)
	}
}

// full reports whether a leaf can have no further assignment: one leaf has at most half of
// them, and the leaves of a tenant have as many as are free.
func (ls *leaves) full(l *leafSession) bool {
	free := ls.most - ls.held
	return free <= 0 || l.keys.n >= ls.half() || l.tenant != nil && l.tenant.held >= free
}

// half returns the number of assignments that one leaf may have.
func (ls *leaves) half() int { return (ls.most + 1) / 2 }

// fullFor reports whether there is no room for a new assignment of a leaf. What is kept for lost leaves keeps no
// other leaf out: it is taken back, first of the leaf that was lost first. The next one follows when all of the
// first is taken back.
func (ls *leaves) fullFor(l *leafSession, now time.Duration) bool {
	for ls.full(l) {
		if l.keys.n >= ls.half() {
			return true
		}
		lost := ls.firstLost()
		switch {
		case lost == nil:
			return true
		case len(ls.left) > 0:
			ls.dropLeft(now)
		default:
			ls.leave(lost, now)
		}
	}
	return false
}

// refuse counts a report or an exchange that is refused.
func (ls *leaves) refuse(ofTenant bool) {
	if ls.refused++; ofTenant {
		ls.tenantRefused++
	}
}

// leave ends a leaf. This call and the next ones take its assignments back.
func (ls *leaves) leave(l *leafSession, now time.Duration) {
	ls.remove(l)
	l.session.End()
	ls.sessions.remove(l)
	ls.left = append(ls.left, l)
	ls.dropLeft(now)
}

// dropLeft takes back assignments of leaves that have left.
func (ls *leaves) dropLeft(now time.Duration) {
	place := 0
	for n := 0; len(ls.left) > 0 && n < droppedEach; n++ {
		last := len(ls.left) - 1
		if keys := &ls.left[last].keys; keys.n > 0 {
			place = keys.next(place)
			ls.drop(keys.slots[place].holding, now)
			continue
		}
		ls.left[last] = nil
		ls.left = ls.left[:last]
	}
}

// dropEnded removes the assignments that have ended in an Allocator.
func (ls *leaves) dropEnded(now time.Duration) {
	for i := 0; i < len(ls.ended); i++ { // drop may append
		if h := ls.ended[i]; h.leaf.keys.get(h.print) == h {
			ls.drop(h, now)
		}
	}
	clear(ls.ended)
	ls.ended = ls.ended[:0]
}

// sweep takes assignments back that have ended in buckets of which there are no reports, and
// removes buckets and leaves that have none. It goes through all buckets in a time to live,
// a part in each call.
func (ls *leaves) sweep(now time.Duration) {
	ls.dropLeft(now)
	ls.look(now)
	n := min(int(float64(len(ls.buckets))*float64(now-ls.swept)/float64(ls.cfg.TTL)), len(ls.buckets))
	if n > 0 || len(ls.buckets) == 0 {
		ls.swept = now
	}
	for ; n > 0 && len(ls.buckets) > 0; n-- {
		ls.place %= len(ls.buckets)
		b := ls.buckets[ls.place]
		if b.Expire(now); b.Members() > 0 {
			if b.relay == nil {
				b.note(now)
			}
			ls.place++
			continue
		}
		ls.removeBucket(b)
	}
	ls.unlimited.Expire(now)
	ls.dropEnded(now)
	if now-ls.cleaned < ls.cfg.TTL {
		return
	}
	ls.cleaned = now
	ls.forgetFound()
	for _, l := range ls.byName {
		if l.keys.n == 0 && l.session.Until() <= now {
			ls.remove(l)
		}
	}
}

func (ls *leaves) stats() LeafStats {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return LeafStats{
		Leaves: len(ls.byName), Assignments: ls.held, Buckets: len(ls.buckets),
		Exchanges: ls.exchanges, Reports: ls.reports, Refused: ls.refused, TenantRefused: ls.tenantRefused,
	}
}
