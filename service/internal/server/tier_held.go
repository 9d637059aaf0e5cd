package server

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// tierLeases are the leases that a Tier has granted or passed on.
type tierLeases struct {
	mu    sync.Mutex // guards what follows, and the fields of all leases that change
	held  map[string]*tierLease
	units map[leaseBucket]int
}

// A leaseBucket is a bucket of leases under a rule.
type leaseBucket struct{ rule, name string }

// A tierLease is a lease. The fields up to until do not change once it is held.
type tierLease struct {
	id    string // that the holder has
	key   string
	n     int
	parts []leasePart
	token uint64
	ttl   time.Duration

	until    time.Time
	upstream string // its id there; empty if the upstream does not know it
	alone    bool   // the node has granted or extended it alone
}

// A leasePart is a lease under one rule.
type leasePart struct {
	rule   *rules.Rule
	counts *lease.Limits
	name   string
}

func (p *leasePart) bucket() leaseBucket { return leaseBucket{p.rule.Name, p.name} }

func newTierLeases() tierLeases {
	return tierLeases{held: map[string]*tierLease{}, units: map[leaseBucket]int{}}
}

func (t *Tier) newLease(m *rules.Match, key string, n int) *tierLease {
	l := &tierLease{key: strings.Clone(key), n: n}
	for _, r := range m.List {
		if r.Concurrency != nil {
			l.parts = append(l.parts, leasePart{r, t.leases.CountsOf(m.Set, r), r.Bucket(l.key)})
		}
	}
	return l
}

// add remembers a lease, unless there are most.
func (h *tierLeases) add(l *tierLease, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(l, most)
}

func (h *tierLeases) addLocked(l *tierLease, most int) bool {
	now := time.Now()
	if len(h.held) >= most {
		h.expireLocked(now)
	}
	if len(h.held) >= most {
		return false
	}
	l.until, l.alone = now.Add(l.ttl), l.upstream == ""
	h.held[l.id] = l
	for i := range l.parts {
		h.units[l.parts[i].bucket()] += l.n
		l.parts[i].counts.Hold(l.n)
	}
	return true
}

// find returns a lease of a key; nil if the node does not remember it.
func (h *tierLeases) find(key, id string, now time.Time) *tierLease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.held[id]; l != nil && l.key == key && l.until.After(now) {
		return l
	}
	return nil
}

// upstreamOf returns the id of a lease at the upstream, or "".
func (h *tierLeases) upstreamOf(l *tierLease) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.upstream
}

// isAlone reports whether the node has granted or extended a lease alone.
func (h *tierLeases) isAlone(l *tierLease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.alone
}

// renew lets a lease last for ttl from now. The id at the upstream stays if upstream is empty.
func (h *tierLeases) renew(l *tierLease, upstream string, ttl time.Duration, alone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.until, l.alone = time.Now().Add(ttl), alone; upstream != "" {
		l.upstream = upstream
	}
}

// used returns the units of the buckets of a lease that the node has granted.
func (h *tierLeases) used(l *tierLease) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := make([]int, len(l.parts))
	for i := range l.parts {
		used[i] = h.units[l.parts[i].bucket()]
	}
	return used
}

// count returns the number of leases.
func (h *tierLeases) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireLocked(time.Now())
	return len(h.held)
}

// drop forgets a lease.
func (h *tierLeases) drop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(id)
}

func (h *tierLeases) dropLocked(id string) {
	l := h.held[id]
	if l == nil {
		return
	}
	delete(h.held, id)
	for i := range l.parts {
		b := l.parts[i].bucket()
		l.parts[i].counts.Hold(-l.n)
		if h.units[b] -= l.n; h.units[b] <= 0 {
			delete(h.units, b)
		}
	}
}

func (h *tierLeases) expireLocked(now time.Time) {
	for id, l := range h.held {
		if !l.until.After(now) {
			h.dropLocked(id)
		}
	}
}

func (l *tierLease) rules() (list []*rules.Rule) {
	for i := range l.parts {
		list = append(list, l.parts[i].rule)
	}
	return list
}

func (l *tierLease) count() {
	for i := range l.parts {
		l.parts[i].counts.Granted()
	}
}

func (l *tierLease) renewed() {
	for i := range l.parts {
		l.parts[i].counts.Renewed()
	}
}

func (l *tierLease) returned() {
	for i := range l.parts {
		l.parts[i].counts.Returned()
	}
}

// refused counts a refusal under the first rule that can refuse.
func (l *tierLease) refused(why weir.Reason) {
	for i := range l.parts {
		if p := &l.parts[i]; p.rule.Mode != config.Shadow {
			p.counts.Refused(why)
			return
		}
	}
}

// deniedAway reports whether a rule of the lease denies while the upstream does not answer.
func (l *tierLease) deniedAway(otherwise config.Away) bool {
	for i := range l.parts {
		if r := l.parts[i].rule; r.Mode != config.Shadow && (r.Away == config.AwayDeny || r.Away == "" && otherwise == config.AwayDeny) {
			return true
		}
	}
	return false
}

// view returns the lease as its holder sees it; used are the units of its buckets at this node.
func (l *tierLease) view(used []int, step decider.Step) decider.Lease {
	v := decider.Lease{ID: l.id, Key: l.key, N: l.n, Token: l.token, TTL: l.ttl, Step: step}
	room := math.MaxInt
	for i := range l.parts {
		if limit := int(l.parts[i].rule.Concurrency.Limit); limit-used[i] < room && limit != int(config.Auto) {
			room, v.Limit, v.Inflight = limit-used[i], limit, used[i]
		}
	}
	return v
}
