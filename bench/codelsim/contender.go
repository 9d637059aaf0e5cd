package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bohde/codel"
	"golang.org/x/sync/semaphore"

	"github.com/weir-go/weir"
	dropin "github.com/weir-go/weir/codel"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
)

// The parameters of the source.
const (
	outstanding = 10
	pending     = 1000
	target      = 5 * time.Millisecond
	interval    = 10 * time.Millisecond // a constant in the source
)

// admit lets a caller in, until it calls leave, or not.
type admit func(ctx context.Context) (leave func(), err error)

// contenders stand beside each other in every row: I/2 is half the interval.
var contenders = []struct {
	name  string
	build func() (admit, error)
}{
	{"queue", newQueue},
	{"bohde/codel", func() (admit, error) {
		return locked(codel.New(codel.Options{MaxPending: pending, MaxOutstanding: outstanding, TargetLatency: target}))
	}},
	{"weir/codel", func() (admit, error) { // with the other import
		return locked(dropin.New(dropin.Options{MaxPending: pending, MaxOutstanding: outstanding, TargetLatency: target}))
	}},
	{"weir, 10", func() (admit, error) { return newWeir(limit.Fixed(outstanding), interval) }},
	{"weir, 10, I/2", func() (admit, error) { return newWeir(limit.Fixed(outstanding), interval/2) }},
	{"weir, Auto", func() (admit, error) { return newAuto(interval) }},
	{"weir, 10, 3 ms", func() (admit, error) { return newWeir(limit.Fixed(outstanding), 3*time.Millisecond) }},
	{"weir, Auto, 3 ms", func() (admit, error) { return newAuto(3 * time.Millisecond) }},
	{"weir, Auto, I/2", func() (admit, error) { return newAuto(interval / 2) }},
}

type acquirer interface {
	Acquire(ctx context.Context) error
	Release()
}

func locked(l acquirer) (admit, error) {
	return func(ctx context.Context) (func(), error) { return l.Release, l.Acquire(ctx) }, nil
}

func newWeir(alg limit.Algorithm, interval time.Duration) (admit, error) {
	lim, err := inflight.New(inflight.Config{
		Algorithm: alg, Queue: pending, MaxWait: -1,
		Discipline: inflight.CoDel, Target: target, Interval: interval,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (func(), error) {
		permit, err := lim.Acquire(ctx, 1)
		return func() { permit.Release(weir.Success) }, err
	}, nil
}

func newAuto(interval time.Duration) (admit, error) {
	alg, err := limit.NewAuto(limit.Config{})
	if err != nil {
		return nil, err
	}
	return newWeir(alg, interval)
}

var errFull = errors.New("the queue is full")

// newQueue is a semaphore with a bounded queue, first come, first served.
func newQueue() (admit, error) {
	sem := semaphore.NewWeighted(outstanding)
	leave := func() { sem.Release(1) }
	var here atomic.Int64
	return func(ctx context.Context) (func(), error) {
		if here.Add(1) > outstanding+pending {
			here.Add(-1)
			return nil, errFull
		}
		if err := sem.Acquire(ctx, 1); err != nil {
			here.Add(-1)
			return nil, err
		}
		return func() { leave(); here.Add(-1) }, nil
	}, nil
}
