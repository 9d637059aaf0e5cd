package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

var leaseScript = redislink.NewScript(redisscript.Leases)

// A leaseAsk is a bucket of leases under one rule.
type leaseAsk struct {
	rule   *rules.Rule
	counts *lease.Limits
	key    string // in the store
	limit  int    // units, or redisscript.NoLimit in shadow mode
}

// A sharedLease is a lease, or a request for one. The store has it. The node remembers the leases
// that it has granted, for the time when the store does not answer.
type sharedLease struct {
	key   string // of the caller
	asks  []leaseAsk
	id    string // in the store: the beginning of the id that the holder has
	n     int
	token uint64
	ttl   time.Duration
	asked time.Duration // the ttl that the request asks for; <= 0: that of the rules
	rules *rules.Set    // under which it is asked for
	queue leaseQueue

	// Guarded by sharedLeases.mu, once it is held.
	until  time.Time
	untold bool // it was granted or renewed while the store was away
}

// maxLeaseUnits bounds the units of one lease: each is a member of a set in the store.
const maxLeaseUnits = 1000

// leaseAsk returns the bucket of leases of a key under a rule.
func (s *Shared) leaseAsk(m *rules.Match, r *rules.Rule, key string) leaseAsk {
	a := leaseAsk{rule: r, counts: s.leases.CountsOf(m.Set, r), key: s.storedKey(r.Bucket(key), storedName(r.Name)+":leases"), limit: int(r.Concurrency.Limit)}
	if r.Mode == config.Shadow {
		a.limit = redisscript.NoLimit
	}
	return a
}

func (s *Shared) leaseAsks(m *rules.Match, key string) (asks []leaseAsk) {
	for _, r := range m.List {
		if r.Concurrency != nil {
			asks = append(asks, s.leaseAsk(m, r, key))
		}
	}
	return asks
}

// leaseCall returns the call of the script for a lease.
func (s *Shared) leaseCall(l *sharedLease, op string) *redislink.Call {
	what := redisscript.Lease{
		TTL: l.ttl, ID: l.id, N: l.n,
		Patience: l.queue.patience, Arrived: l.queue.arrived, MaxWaiting: l.queue.most,
	}
	c := &redislink.Call{Script: leaseScript}
	for i := range l.asks {
		c.Keys = append(c.Keys, l.asks[i].key)
		what.Limits = append(what.Limits, l.asks[i].limit)
	}
	c.Args = what.Args(op)
	c.Look = func() []any { return what.Args(redisscript.LookLease) }
	return c
}

// askLease runs the script for a lease.
func (s *Shared) askLease(ctx context.Context, l *sharedLease, op string) (redisscript.LeaseReply, error) {
	c := s.leaseCall(l, op)
	if op == redisscript.TakeLease {
		c.Undo = func([]int64) { s.endLease(l) }
	}
	numbers, err := s.link.Lane(l.asks[0].key).Ask(ctx, c)
	if err != nil {
		return redisscript.LeaseReply{}, err
	}
	return redisscript.ReadLeaseReply(numbers, len(l.asks))
}

// endLease ends a lease in the store, or the wait for it, without a caller.
func (s *Shared) endLease(l *sharedLease) {
	c := s.leaseCall(l, redisscript.GiveLease)
	c.Then = func(a redislink.Answer) {
		if a.Err != nil {
			s.dropped.Add(1)
		}
	}
	s.link.Lane(l.asks[0].key).Send(c)
}

// storedLeases are leases in the store.
type storedLeases struct {
	*lease.Registry // of the limits that count them
	*Shared
}

// Acquire takes a lease: see node.Leases. Requests that wait ask again from time to time. The
// store grants leases in the order of their arrival there.
func (s storedLeases) Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, none lease.Wait) (decider.Lease, lease.Wait, error) {
	l, err := s.acquire(ctx, m, &req)
	return l, none, err
}

func (s *Shared) acquire(ctx context.Context, m *rules.Match, req *decider.LeaseRequest) (decider.Lease, error) {
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return decider.Lease{}, decider.ErrNoLeasing
	}
	l := &sharedLease{key: strings.Clone(req.Key), id: newLeaseID(), n: req.N, asked: req.TTL}
	l.under(m, terms, s.leaseAsks(m, req.Key))
	for i := range l.asks {
		if a := &l.asks[i]; a.limit >= 0 && req.N > min(a.limit, maxLeaseUnits) {
			a.counts.Refused(weir.OverLimit)
			return decider.Lease{}, weir.Reject(weir.OverLimit, weir.Never)
		}
	}
	if req.Wait && !s.room.Closed() {
		l.queue = leaseQueue{patience: patience, most: l.queueSize()}
	}
	granted, denied, err := s.tryLease(ctx, l)
	switch {
	case err != nil || granted.ID != "":
		return granted, err
	case req.Wait && s.room.Closed():
		return granted, l.refuse(weir.Closed, waiting.DrainRetry)
	case denied.QueueFull || req.Wait && l.queue.most == 0:
		return granted, l.refuse(weir.QueueFull, denied.Wait)
	case !req.Wait:
		return granted, l.refuse(weir.OverLimit, denied.Wait)
	}
	if req.OnWait != nil {
		req.OnWait()
	}
	granted, err = s.waitForLease(ctx, l, &denied)
	if err != nil {
		s.endLease(l)
	}
	return granted, err
}

func newLeaseID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// tryLease asks for a lease once. Without an error and an ID, it is denied by the reply.
func (s *Shared) tryLease(ctx context.Context, l *sharedLease) (granted decider.Lease, reply redisscript.LeaseReply, err error) {
	began := time.Now()
	reply, err = s.askLease(ctx, l, redisscript.TakeLease)
	switch {
	case err != nil && ctx.Err() != nil:
		return granted, reply, ctx.Err()
	case err != nil:
		granted, err = s.leaseAway(l)
		return granted, reply, err
	}
	s.steps[decider.Exact].Add(1)
	if !reply.Granted {
		return granted, reply, nil
	}
	l.queue, l.token = leaseQueue{}, reply.Token
	if !s.held.add(l, began.Add(l.ttl), s.leases.Max()) {
		s.endLease(l)
		return granted, reply, l.refuse(weir.OverLimit, 0)
	}
	l.count()
	return l.view(reply.Held), reply, nil
}

func (l *sharedLease) count() {
	for i := range l.asks {
		l.asks[i].counts.Granted()
	}
}

// view returns the lease as its holder sees it; used are the units of its buckets.
func (l *sharedLease) view(used []int64) decider.Lease {
	v := decider.Lease{ID: l.text(), Key: l.key, N: l.n, Token: l.token, TTL: l.ttl}
	room := math.MaxInt
	for i := range l.asks {
		limit := int(l.asks[i].rule.Concurrency.Limit)
		left := limit - int(used[i])
		if l.asks[i].limit < 0 {
			left = math.MaxInt - 1 // a rule in shadow mode tells only if there is no other
		}
		if left < room {
			room, v.Limit, v.Inflight = left, limit, int(used[i])
		}
	}
	return v
}

// text returns the id that the holder has. It tells the units and the token, which every node
// must know for a renewal.
func (l *sharedLease) text() string {
	return fmt.Sprintf("%s-%d-%d", l.id, l.n, l.token)
}

// parseLeaseID returns the parts of a text.
func parseLeaseID(text string) (id string, n int, token uint64, ok bool) {
	parts := strings.Split(strings.ToLower(text), "-")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	raw, err := hex.DecodeString(parts[0])
	n, errN := strconv.Atoi(parts[1])
	token, errToken := strconv.ParseUint(parts[2], 10, 64)
	return parts[0], n, token, err == nil && len(raw) == 16 && errN == nil && n >= 1 && errToken == nil
}

// known returns the lease with an id; here reports whether this node remembers it.
func (s *Shared) known(m *rules.Match, key, text string) (l *sharedLease, here bool, err error) {
	id, n, token, ok := parseLeaseID(text)
	if !ok {
		return nil, false, decider.ErrNoLease
	}
	if l := s.held.find(key, id, time.Now()); l != nil && l.n == n {
		return l, true, nil
	}
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return nil, false, decider.ErrNoLease
	}
	return &sharedLease{key: key, asks: s.leaseAsks(m, key), id: id, n: n, token: token, ttl: terms.TTL}, false, nil
}

// Renew extends a lease: see node.Leases. The store is told now of a lease that was granted
// or renewed while it was away. A lease that the store has forgotten is lost. While the store is
// away, leases of rules that deny without it are not renewed: they would last longer than there.
func (s storedLeases) Renew(ctx context.Context, m *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error) {
	l, here, err := s.known(m, key, id)
	if err != nil {
		return decider.Lease{}, err
	}
	next := *l
	if ttl > 0 {
		terms, _ := lease.TermsOf(m.List)
		next.ttl = min(ttl, max(terms.MaxTTL, l.ttl))
	}
	op := redisscript.KeepLease
	if here && s.held.isUntold(l) {
		op = redisscript.ForceLease
	}
	began := time.Now()
	reply, err := s.askLease(ctx, &next, op)
	switch {
	case err != nil && ctx.Err() != nil:
		return decider.Lease{}, ctx.Err()
	case err != nil && (!here || s.denyAway(l)):
		return decider.Lease{}, errStore
	case err == nil && !reply.Granted:
		s.held.drop(l.id)
		return decider.Lease{}, decider.ErrNoLease
	case err != nil:
		reply.Held = make([]int64, len(l.asks))
	}
	if here {
		s.held.extend(l, began.Add(next.ttl), err != nil)
	}
	for i := range l.asks {
		l.asks[i].counts.Renewed()
	}
	renewed := next.view(reply.Held)
	if err != nil {
		renewed.Step = decider.Share
	}
	return renewed, nil
}

// Return ends a lease: see node.Leases.
func (s storedLeases) Return(ctx context.Context, m *rules.Match, key, id string, _ weir.Outcome) error {
	l, here, err := s.known(m, key, id)
	if err != nil {
		return err
	}
	untold := here && s.held.isUntold(l)
	s.held.drop(l.id)
	reply, err := s.askLease(ctx, l, redisscript.GiveLease)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !here:
		return errStore
	case err == nil && !untold && reply.Held[0] == 0:
		return decider.ErrNoLease
	}
	for i := range l.asks {
		l.asks[i].counts.Returned()
	}
	return nil
}
