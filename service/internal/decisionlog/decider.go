package decisionlog

import (
	"context"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// recorded is a decider.Decider that records.
type recorded struct {
	decider.Decider
	r *Recorder
}

// Record returns a Decider that adds its decisions about tokens to a Recorder. It counts the requests for leases.
func Record(d decider.Decider, r *Recorder) decider.Decider { return &recorded{d, r} }

// Decide decides at once.
func (d *recorded) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	err := d.Decider.Decide(ctx, req, v)
	if err != nil {
		d.r.failed.Add(1)
		return err
	}
	at := d.r.at(v)
	s := d.r.stripe()
	d.r.add(s, at, req, v, 0, 0, 0)
	s.mu.Unlock()
	return nil
}

// Wait waits for missing tokens.
func (d *recorded) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	arrived := time.Since(d.r.epoch)
	err := d.Decider.Wait(ctx, req, v)
	if err != nil {
		d.r.failed.Add(1)
		return err
	}
	at, patience := arrived, time.Duration(1<<62)
	if v.Waited == 0 {
		at = d.r.at(v)
	}
	if deadline, ok := ctx.Deadline(); ok {
		patience = max(deadline.Sub(d.r.epoch)-at, 0)
	}
	s := d.r.stripe()
	d.r.add(s, at, req, v, 0, patience, Waits)
	s.mu.Unlock()
	return nil
}

// Batch decides many requests.
func (d *recorded) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	ok, err := d.Decider.Batch(ctx, reqs, all, verdicts)
	d.addAll(reqs, all, verdicts, err, 0)
	return ok, err
}

// Descriptors decides the descriptors of one request.
func (d *recorded) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	ok, err := d.Decider.Descriptors(ctx, reqs, all, verdicts)
	d.addAll(reqs, all, verdicts, err, Descriptors)
	return ok, err
}

func (d *recorded) addAll(reqs []decider.Request, all bool, verdicts []decider.Verdict, err error, flags Flags) {
	if err != nil {
		d.r.failed.Add(uint64(len(reqs)))
		return
	}
	if len(reqs) == 0 {
		return
	}
	if all {
		flags |= Together
	}
	group := uint32(0)
	for len(reqs) > 1 && group == 0 {
		group = d.r.group.Add(1)
	}
	at := d.r.at(&verdicts[0])
	s := d.r.stripe()
	defer s.mu.Unlock()
	for i := range reqs {
		d.r.add(s, at, &reqs[i], &verdicts[i], group, 0, flags)
	}
}

// Settle reports the true cost of a grant.
func (d *recorded) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	done, err := d.Decider.Settle(ctx, key, id, n)
	if err == nil {
		d.r.settled(key, id, n, done.Was)
	}
	return done, err
}

// Acquire takes a lease.
func (d *recorded) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	d.r.leases.Add(1)
	return d.Decider.Acquire(ctx, req)
}

// Exchange shares rates out among leaves.
func (d *recorded) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	for i := range x.Reports {
		d.r.leafUsed.Add(uint64(max(x.Reports[i].Used, 0)))
	}
	return d.Decider.Exchange(ctx, x, got)
}
