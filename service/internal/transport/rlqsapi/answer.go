package rlqsapi

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// actions are the new assignments of a response.
type actions = []*rlqs.RateLimitQuotaResponse_BucketAction

// answer takes the reports of a proxy, and returns its assignments.
func (a *API) answer(ctx context.Context, session *token.Session, l *proxy, reports *rlqs.RateLimitQuotaUsageReports) (actions, error) {
	if d := reports.GetDomain(); d != "" {
		l.domain = d
	}
	switch {
	case l.domain == "":
		return nil, status.Error(codes.InvalidArgument, "the first report of a stream must have a domain")
	case len(l.domain) > a.cfg.MaxKey: // else each bucket would take the time to make a key of it
		return nil, status.Errorf(codes.InvalidArgument, "the domain has more than %d bytes", a.cfg.MaxKey)
	}
	if session != nil && !session.Known() {
		return nil, errUnknown
	}
	now := time.Now()
	x, first := newExchange(l, len(reports.GetBucketQuotaUsages())), newExchange(l, 0)
	first.asked.Unsure = true
	for _, usage := range reports.GetBucketQuotaUsages() {
		a.stats.reports.Add(1)
		key, err := a.key(session, l, usage.GetBucketId())
		if err != nil {
			a.stats.refused.Add(1)
			continue
		}
		b := a.bucket(l, key, now)
		if b == nil {
			a.stats.refused.Add(1)
			continue
		}
		b.id = usage.GetBucketId()
		b.report(now, usage)
		to := x
		if b.unsure && b.uses != decider.AsAssigned {
			to = first
		}
		to.add(b, leaf.Report{Key: key, Used: int(min(usage.GetNumRequestsAllowed(), math.MaxInt32)), Wants: b.wants, Has: b.uses})
	}
	return append(a.exchange(ctx, now, x, false), a.exchange(ctx, now, first, false)...), nil
}

// key returns the key of a bucket, of which the session may report.
func (a *API) key(session *token.Session, l *proxy, id *rlqs.BucketId) (string, error) {
	key, err := decider.ParseKey(keyOf(l.domain, id.GetBucket()), a.cfg.MaxKey)
	if err == nil && session != nil {
		err = session.Authorize(token.Decide, key)
	}
	return key, err
}

// keyOf returns the key of a bucket: a descriptor of its entries, by their names.
func keyOf(domain string, id map[string]string) string {
	var entries []descriptor.Entry
	for _, name := range slices.Sorted(maps.Keys(id)) {
		entries = append(entries, descriptor.Entry{Key: name, Value: id[name]})
	}
	return string(descriptor.Append(nil, domain, entries))
}

// Bounds of the interval in which changes of a proxy's shares are looked for.
const (
	often  = 250 * time.Millisecond
	seldom = time.Second
)

// changes returns the assignments of a proxy that have changed without a report of it.
func (a *API) changes(ctx context.Context, l *proxy) actions {
	var got decider.LeafAnswer
	none := newExchange(l, 0)
	l.look = seldom
	if l.domain == "" { // it has reported nothing
		return nil
	}
	if err := a.decider.Exchange(ctx, &none.asked, &got); err != nil || len(got.Watch) == 0 {
		return nil
	}
	l.look = often
	now := time.Now()
	since := now.Add(-time.Duration(got.TTLMS) * time.Millisecond) // a silent proxy must not keep its share
	x := newExchange(l, len(got.Watch))
	x.asked.Repeat = true
	for _, key := range got.Watch {
		if b := a.live(l, key, now, since); b != nil {
			x.add(b, leaf.Report{Key: key, Wants: b.wants, Has: b.uses})
		}
	}
	return a.exchange(ctx, now, x, true)
}

// An exchange reports buckets of a proxy to the Decider.
type exchange struct {
	asked   decider.LeafExchange
	buckets []*bucket // of the reports
}

// newExchange returns an exchange with room for n reports.
func newExchange(l *proxy, n int) *exchange {
	return &exchange{buckets: make([]*bucket, 0, n), asked: decider.LeafExchange{
		Exchange: leaf.Exchange{Leaf: l.name, Reports: make([]leaf.Report, 0, n)}, Single: true, Keep: keepShare, Tenant: l.tenant,
	}}
}

func (x *exchange) add(b *bucket, r leaf.Report) {
	x.buckets, x.asked.Reports = append(x.buckets, b), append(x.asked.Reports, r)
}

// exchange returns the assignments of reported buckets. If changed is set, assignments that
// are as before are left out.
func (a *API) exchange(ctx context.Context, now time.Time, x *exchange, changed bool) (all actions) {
	if len(x.buckets) == 0 {
		return nil
	}
	var got decider.LeafAnswer
	if err := a.decider.Exchange(ctx, &x.asked, &got); err != nil {
		if !changed {
			a.stats.refused.Add(int64(len(x.buckets)))
		}
		return nil
	}
	ttl := time.Duration(got.TTLMS) * time.Millisecond
	a.renew(x.buckets, got.Assignments, now.Add(ttl))
	for i, b := range x.buckets {
		switch r := &got.Assignments[i]; {
		case r.Error != "":
			if !changed {
				a.stats.refused.Add(1)
			}
		case r.Learning:
		case b.assign(now, r) || !changed:
			all = append(all, b.action(ttl))
		}
	}
	return all
}
