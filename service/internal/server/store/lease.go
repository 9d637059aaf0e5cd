package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redislink"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/service/internal/server/away"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

var leaseScript = redislink.NewScript(redisscript.Leases)

// A sharedLease is a lease, or a request for one. The store has it. The node remembers the leases
// that it has granted, for the time when the store does not answer. Its ID is the beginning of the id that the holder has.
type sharedLease struct {
	*away.Lease
	ttl   time.Duration
	asked time.Duration // the ttl that the request asks for; <= 0: that of the rules
	rules *rules.Set    // under which it is asked for
	queue leaseQueue
}

// maxLeaseUnits bounds the units of one lease: each is a member of a set in the store.
const maxLeaseUnits = 1000

// leaseKey returns the key in the store of the leases of a bucket.
func (s *Counts) leaseKey(p *away.LeasePart) string {
	return s.storedKey(p.Bucket, storedName(p.Rule.Name)+":leases")
}

// lane returns the lane of a lease.
func (s *Counts) leaseLane(l *sharedLease) *redislink.Lane {
	return s.link.Lane(s.leaseKey(&l.Parts[0]))
}

// leaseCall returns the call of the script for a lease.
func (s *Counts) leaseCall(l *sharedLease, op string) *redislink.Call {
	what := redisscript.Lease{
		TTL: l.ttl, ID: l.ID, N: l.N,
		Patience: l.queue.patience, Arrived: l.queue.arrived, MaxWaiting: l.queue.most,
	}
	c := &redislink.Call{Script: leaseScript}
	for i := range l.Parts {
		p, limit := &l.Parts[i], redisscript.NoLimit
		if p.Enforced() {
			limit = int(p.Rule.Concurrency.Limit)
		}
		c.Keys, what.Limits = append(c.Keys, s.leaseKey(p)), append(what.Limits, limit)
	}
	c.Args = what.Args(op)
	c.Look = func() []any { return what.Args(redisscript.LookLease) }
	return c
}

// askLease runs the script for a lease.
func (s *Counts) askLease(ctx context.Context, l *sharedLease, op string) (redisscript.LeaseReply, error) {
	c := s.leaseCall(l, op)
	if op == redisscript.TakeLease {
		c.Undo = func([]int64) { s.endLease(l) }
	}
	numbers, err := s.leaseLane(l).Ask(ctx, c)
	if err != nil {
		return redisscript.LeaseReply{}, err
	}
	return redisscript.ReadLeaseReply(numbers, len(l.Parts))
}

// endLease ends a lease in the store, or the wait for it, without a caller.
func (s *Counts) endLease(l *sharedLease) {
	c := s.leaseCall(l, redisscript.GiveLease)
	c.Then = func(a redislink.Answer) {
		if a.Err != nil {
			s.dropped.Add(1)
		}
	}
	s.leaseLane(l).Send(c)
}

// Leases are leases in the store.
type Leases struct {
	*lease.Registry // of the limits that count them
	counts          *Counts
}

// Acquire takes a lease: see node.Leases. Requests that wait ask again from time to time. The
// store grants leases in the order of their arrival there.
func (in Leases) Acquire(ctx context.Context, m *rules.Match, req decider.LeaseRequest, none lease.Wait) (decider.Lease, lease.Wait, error) {
	got, err := in.counts.held.Acquire(m, &req, func(l *away.Lease) (decider.Lease, error) {
		return in.counts.acquire(ctx, &sharedLease{Lease: l, rules: m.Set, ttl: l.TTL, asked: req.TTL}, &req)
	})
	return got, none, err
}

func (s *Counts) acquire(ctx context.Context, l *sharedLease, req *decider.LeaseRequest) (decider.Lease, error) {
	l.ID = newLeaseID()
	for i := range l.Parts {
		if p := &l.Parts[i]; p.Enforced() && req.N > min(int(p.Rule.Concurrency.Limit), maxLeaseUnits) {
			return decider.Lease{}, p.Refuse(weir.OverLimit, weir.Never)
		}
	}
	if req.Wait && !s.of.Room.Closed() {
		l.queue = leaseQueue{patience: patience, most: l.queueSize()}
	}
	granted, denied, err := s.tryLease(ctx, l)
	switch {
	case err != nil || granted.ID != "":
		return granted, err
	case req.Wait && s.of.Room.Closed():
		return granted, l.Refuse(weir.Closed, waiting.DrainRetry)
	case denied.QueueFull || req.Wait && l.queue.most == 0:
		return granted, l.Refuse(weir.QueueFull, denied.Wait)
	case !req.Wait:
		return granted, l.Refuse(weir.OverLimit, denied.Wait)
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
func (s *Counts) tryLease(ctx context.Context, l *sharedLease) (granted decider.Lease, reply redisscript.LeaseReply, err error) {
	began := time.Now()
	reply, err = s.askLease(ctx, l, redisscript.TakeLease)
	switch {
	case err != nil && ctx.Err() != nil:
		return granted, reply, ctx.Err()
	case err != nil:
		granted, err = s.held.Grant(l.Lease, l.ID, s.leaseLane(l).RetryAfter())
		if err == nil {
			granted.ID = l.text()
		}
		return granted, reply, err
	}
	s.ladder.Count(decider.Exact)
	if !reply.Granted {
		return granted, reply, nil
	}
	l.queue, l.Token = leaseQueue{}, reply.Token
	if !s.held.Add(l.Lease, "", began.Add(l.TTL)) {
		s.endLease(l)
		return granted, reply, l.Refuse(weir.OverLimit, 0)
	}
	return l.view(reply.Held), reply, nil
}

// view returns the lease as its holder sees it; used are the units of its buckets in the store.
func (l *sharedLease) view(used []int64) decider.Lease {
	all := make([]int, len(l.Parts))
	for i := range used {
		all[i] = int(used[i])
	}
	v := l.View(all)
	v.ID, v.TTL = l.text(), l.ttl
	return v
}

// text returns the id that the holder has. It tells the units and the token, which every node
// must know for a renewal.
func (l *sharedLease) text() string {
	return fmt.Sprintf("%s-%d-%d", l.ID, l.N, l.Token)
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
func (s *Counts) known(m *rules.Match, key, text string) (l *sharedLease, here bool, err error) {
	id, n, token, ok := parseLeaseID(text)
	if !ok {
		return nil, false, decider.ErrNoLease
	}
	if l := s.held.Find(key, id); l != nil && l.N == n {
		return &sharedLease{Lease: l, ttl: l.TTL}, true, nil
	}
	terms, ok := lease.TermsOf(m.List)
	if !ok {
		return nil, false, decider.ErrNoLease
	}
	l = &sharedLease{Lease: &away.Lease{Key: key, ID: id, N: n, Parts: s.held.Parts(m, key), Token: token, TTL: terms.TTL}, ttl: terms.TTL}
	return l, false, nil
}

// Renew extends a lease: see node.Leases. The store is told now of a lease that was granted
// or renewed while it was away. A lease that the store has forgotten is lost. While the store is
// away, leases of rules that deny without it are not renewed: they would last longer than there.
func (in Leases) Renew(ctx context.Context, m *rules.Match, key, id string, ttl time.Duration) (decider.Lease, error) {
	s := in.counts
	l, here, err := s.known(m, key, id)
	if err != nil {
		return decider.Lease{}, err
	}
	next := *l
	if ttl > 0 {
		terms, _ := lease.TermsOf(m.List)
		next.ttl = min(ttl, max(terms.MaxTTL, l.TTL))
	}
	op := redisscript.KeepLease
	if _, untold := s.held.State(l.Lease); here && untold {
		op = redisscript.ForceLease
	}
	began := time.Now()
	reply, err := s.askLease(ctx, &next, op)
	switch {
	case err != nil && ctx.Err() != nil:
		return decider.Lease{}, ctx.Err()
	case err != nil && (!here || s.held.Denies(l.Lease)):
		return decider.Lease{}, errStore
	case err == nil && !reply.Granted:
		s.held.Drop(l.ID)
		return decider.Lease{}, decider.ErrNoLease
	case err != nil:
		reply.Held = make([]int64, len(l.Parts))
	}
	if here {
		s.held.Renew(l.Lease, "", began.Add(next.ttl), err != nil)
	}
	l.Renewed()
	renewed := next.view(reply.Held)
	if err != nil {
		renewed.Step = decider.Share
	}
	return renewed, nil
}

// Return ends a lease: see node.Leases.
func (in Leases) Return(ctx context.Context, m *rules.Match, key, id string, o weir.Outcome) error {
	s := in.counts
	l, here, err := s.known(m, key, id)
	if err != nil {
		return err
	}
	_, untold := s.held.State(l.Lease)
	s.held.Return(l.Lease, o)
	reply, err := s.askLease(ctx, l, redisscript.GiveLease)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !here:
		return errStore
	case err == nil && !untold && reply.Held[0] == 0:
		return decider.ErrNoLease
	}
	l.Returned()
	return nil
}
