package server_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/config"
	"github.com/weir-go/weir/server"
)

// leasing returns a Server with one rule for all keys.
func leasing(t *testing.T, c config.Concurrency) *server.Server {
	return leasingUnder(t, server.Config{}, config.Rule{Name: "jobs", Glob: "*", Concurrency: &c})
}

func leasingUnder(t *testing.T, cfg server.Config, rules ...config.Rule) *server.Server {
	t.Helper()
	cfg.Rules = &config.Rules{Apply: config.All, Rules: rules}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// refused checks that an error is a rejection for the reason.
func refused(t *testing.T, err error, why weir.Reason) {
	t.Helper()
	var r *weir.Rejection
	if !errors.As(err, &r) || r.Reason != why {
		t.Errorf("%v: want %v", err, why)
	}
}

func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasing(t, config.Concurrency{Limit: 2, TTL: time.Second})
		a, err := s.Acquire(t.Context(), server.LeaseRequest{Key: "k", N: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", a)
		_, err = s.Acquire(t.Context(), server.LeaseRequest{Key: "k", N: 1})
		refused(t, err, weir.OverLimit)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		b, err := s.Acquire(ctx, server.LeaseRequest{Key: "k", N: 1, Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", b)
		if err := s.Return("k", a.ID, weir.Success); err != server.ErrNoLease {
			t.Error(err)
		}
		if err := s.Return("k", b.ID, weir.Success); err != nil {
			t.Error(err)
		}
		t.Logf("%+v", s.Stats().Rules[0].Leases)
	})
}
