package away

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// Leases are the leases that a node has granted for a store or an upstream. While that does not answer, the node grants
// them by its share of the limits, or as the rules say. Rules with a limit that is auto have no share.
type Leases struct {
	registry *lease.Registry // of the limits that count them
	share    Share
	ladder   *Ladder // counts decisions by the node alone

	mu    sync.Mutex // guards what follows, and the fields of all leases that change
	held  map[string]*Lease
	units map[leaseBucket]int
}

// A leaseBucket is a bucket of leases under a rule.
type leaseBucket struct{ rule, name string }

// A Lease is a lease, or a request for one. The fields up to TTL do not change once it is held.
type Lease struct {
	ID    string
	Key   string
	N     int // units
	Parts []LeasePart
	Token uint64
	TTL   time.Duration

	came     time.Time // when it was asked for
	since    time.Time // when it was granted
	inflight int       // units of the first rule then, these included
	until    time.Time
	upstream string // its id there, if that is another
	untold   bool   // it was granted or renewed by the node alone
}

// A LeasePart is a lease under one rule.
type LeasePart struct {
	Rule   *rules.Rule
	Bucket string
	counts *lease.Limits
}

func (p *LeasePart) bucket() leaseBucket { return leaseBucket{p.Rule.Name, p.Bucket} }

// Enforced reports whether the rule can refuse.
func (p *LeasePart) Enforced() bool { return p.Rule.Mode != config.Shadow }

// NewLeases returns Leases that the limits of a registry count.
func NewLeases(registry *lease.Registry, share Share, ladder *Ladder) *Leases {
	return &Leases{registry: registry, share: share, ladder: ladder, held: map[string]*Lease{}, units: map[leaseBucket]int{}}
}

// Acquire asks for a lease under the rules of a match, and makes a record if there is an error.
func (h *Leases) Acquire(m *rules.Match, req *decider.LeaseRequest, ask func(l *Lease) (decider.Lease, error)) (decider.Lease, error) {
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return decider.Lease{}, decider.ErrNoLeasing
	}
	l := &Lease{Key: strings.Clone(req.Key), N: req.N, Parts: h.Parts(m, req.Key), TTL: TTL(terms, req.TTL), came: time.Now()}
	got, err := ask(l)
	if err != nil {
		first := &l.Parts[0]
		h.registry.Recorder.Refusal(first.Rule.Name, time.Since(l.came), first.counts.Held(), err)
	}
	return got, err
}

// TTL returns how long a lease lasts, of which a request asks for some time; 0 if for none.
func TTL(terms rules.LeaseTerms, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, terms.MaxTTL)
	}
	return terms.TTL
}

// Parts returns the rules of a match that grant leases of a key.
func (h *Leases) Parts(m *rules.Match, key string) (parts []LeasePart) {
	for _, r := range m.List {
		if r.Concurrency != nil {
			parts = append(parts, LeasePart{Rule: r, Bucket: strings.Clone(r.Bucket(key)), counts: h.registry.CountsOf(m.Set, r)})
		}
	}
	return parts
}

// Add remembers a lease until an instant, unless there are too many.
func (h *Leases) Add(l *Lease, upstream string, until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.addLocked(l, upstream, until)
}

func (h *Leases) addLocked(l *Lease, upstream string, until time.Time) bool {
	if len(h.held) >= h.registry.Max() {
		h.expireLocked(time.Now())
	}
	if len(h.held) >= h.registry.Max() {
		return false
	}
	l.upstream, l.since, l.until = upstream, time.Now(), until
	h.held[l.ID] = l
	for i := range l.Parts {
		p := &l.Parts[i]
		h.units[p.bucket()] += l.N
		p.counts.Hold(l.N)
		p.counts.Granted()
	}
	l.inflight = l.Parts[0].counts.Held()
	return true
}

// Grant grants a lease by the node alone, with an id for the case that it is granted. Retry is the advice of a rule that
// denies.
func (h *Leases) Grant(l *Lease, id string, retry time.Duration) (decider.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireLocked(time.Now())
	step, used := decider.Share, make([]int, len(l.Parts))
	for i := range l.Parts {
		p := &l.Parts[i]
		away, limit := cmp.Or(p.Rule.Away, h.share.Otherwise), p.Rule.Concurrency.Limit
		if used[i] = h.units[p.bucket()] + l.N; away != config.AwayShare {
			step = decider.ByRule
		}
		switch {
		case !p.Enforced() || away == config.AwayAllow:
		case away == config.AwayDeny, limit == config.Auto:
			h.ladder.Count(decider.ByRule)
			return decider.Lease{Step: decider.ByRule}, p.Refuse(weir.Closed, retry)
		case used[i] > int(limit)/h.share.Instances():
			h.ladder.Count(step)
			return decider.Lease{Step: step}, p.Refuse(weir.OverLimit, 0)
		}
	}
	h.ladder.Count(step)
	l.ID, l.Token, l.untold = id, uint64(time.Now().UnixMicro()), true
	if !h.addLocked(l, "", time.Now().Add(l.TTL)) {
		return decider.Lease{Step: step}, l.Refuse(weir.OverLimit, 0)
	}
	v := l.View(used)
	v.Step = step
	return v, nil
}

// Find returns a lease of a key; nil if the node does not remember it.
func (h *Leases) Find(key, id string) *Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.held[id]; l != nil && l.Key == key && l.until.After(time.Now()) {
		return l
	}
	return nil
}

// State returns the id of a lease at the upstream, if that is another, and whether the node has granted or renewed the lease alone.
func (h *Leases) State(l *Lease) (upstream string, untold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return l.upstream, l.untold
}

// Renew lets a lease last until an instant. Its id at the upstream stays if upstream is empty.
func (h *Leases) Renew(l *Lease, upstream string, until time.Time, untold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.until, l.untold = until, untold; upstream != "" {
		l.upstream = upstream
	}
}

// Used returns the units of the buckets of a lease that the node has granted.
func (h *Leases) Used(l *Lease) []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	used := make([]int, len(l.Parts))
	for i := range l.Parts {
		used[i] = h.units[l.Parts[i].bucket()]
	}
	return used
}

// Count forgets the leases that have expired, and returns the number of the others.
func (h *Leases) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireLocked(time.Now())
	return len(h.held)
}

// Return forgets a lease that its holder returns, and makes its record, if the node remembers it.
func (h *Leases) Return(l *Lease, o weir.Outcome) {
	h.mu.Lock()
	here := h.held[l.ID] == l
	h.dropLocked(l.ID)
	h.mu.Unlock()
	if here {
		h.registry.Recorder.Lease(l.Parts[0].Rule.Name, l.since.Sub(l.came), time.Since(l.since), l.inflight, o)
	}
}

// Drop forgets a lease.
func (h *Leases) Drop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(id)
}

func (h *Leases) dropLocked(id string) {
	l := h.held[id]
	if l == nil {
		return
	}
	delete(h.held, id)
	for i := range l.Parts {
		b := l.Parts[i].bucket()
		l.Parts[i].counts.Hold(-l.N)
		if h.units[b] -= l.N; h.units[b] <= 0 {
			delete(h.units, b)
		}
	}
}

func (h *Leases) expireLocked(now time.Time) {
	for id, l := range h.held {
		if !l.until.After(now) {
			h.dropLocked(id)
		}
	}
}

// Denies reports whether a rule of a lease denies while the node is alone.
func (h *Leases) Denies(l *Lease) bool {
	return slices.ContainsFunc(l.Parts, func(p LeasePart) bool {
		return p.Enforced() && cmp.Or(p.Rule.Away, h.share.Otherwise) == config.AwayDeny
	})
}

// Renewed counts a renewal of the lease.
func (l *Lease) Renewed() {
	for i := range l.Parts {
		l.Parts[i].counts.Renewed()
	}
}

// Returned counts the return of the lease.
func (l *Lease) Returned() {
	for i := range l.Parts {
		l.Parts[i].counts.Returned()
	}
}

// Refuse counts a refusal under the first rule that can refuse, and returns it.
func (l *Lease) Refuse(why weir.Reason, retry time.Duration) error {
	for i := range l.Parts {
		if p := &l.Parts[i]; p.Enforced() {
			return p.Refuse(why, retry)
		}
	}
	return weir.Reject(why, retry)
}

// Refuse counts a refusal, and returns it.
func (p *LeasePart) Refuse(why weir.Reason, retry time.Duration) error {
	p.counts.Refused(why)
	return weir.Reject(why, retry)
}

// View returns the lease as its holder sees it; used are the units of its buckets.
func (l *Lease) View(used []int) decider.Lease {
	v := decider.Lease{ID: l.ID, Key: l.Key, N: l.N, Token: l.Token, TTL: l.TTL}
	room := math.MaxInt
	for i := range l.Parts {
		p := &l.Parts[i]
		limit := int(p.Rule.Concurrency.Limit)
		left := limit - used[i]
		if !p.Enforced() {
			left = math.MaxInt - 1 // a rule in shadow mode tells only if there is no other
		}
		if left < room && limit != int(config.Auto) {
			room, v.Limit, v.Inflight = left, limit, used[i]
		}
	}
	return v
}
