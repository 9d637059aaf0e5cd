package fleet

import (
	"math/rand/v2"
	"time"
)

// Policies are the names of the policies by which leaves decide.
var Policies = []string{"leaf", "exact", "static", "optimistic", "doorman", "ideal"}

// A step says on what a decision is based, as decider.Step does.
type step uint8

const (
	exact    step = iota // the present state of the limit
	assigned             // a live assignment
	last                 // the last assignment; the upstream is away
	share                // the limit / leaves
	byRule               // the choice of the rule: allow or deny
	steps
)

// Steps are the names of the steps.
var Steps = [...]string{"exact", "assigned", "last", "share", "rule"}

// A node decides in a leaf.
type node interface {
	// allow decides about a request of one token.
	allow(now time.Duration, key int32) (bool, step)
	// due returns the instant of the next exchange; never without one.
	due() time.Duration
	// send begins an exchange, and returns its message and the number of its reports.
	send(now time.Duration) (message any, reports int)
	// receive takes the answer of the upstream; nil after a failure.
	receive(now time.Duration, answer any)
	// rate returns the rate of the last assignment of the first key; NaN if there is none.
	rate() float64
}

// A centre answers exchanges: the upstream of the leaves.
type centre interface {
	answer(now time.Duration, message any) any
}

// A policy makes the nodes and the centre of a run.
type policy interface {
	// node returns the node of a leaf that starts. No other had the name.
	node(now time.Duration, name string, leaf int, rng *rand.Rand) node
	// centre returns an upstream without state.
	centre(now time.Duration) centre
	// leave returns the last message of a node that stops; nil without one.
	leave(now time.Duration, n node) any
}

// choosePolicy makes the policy of the scenario.
func (s *Sim) choosePolicy() (err error) {
	keys, leaves := s.keys, len(s.leaves)
	switch s.sc.Fleet.Policy {
	case "exact":
		s.policy = &exactPolicy{keys: keys, buckets: buckets(keys, 1, 0)}
	case "static":
		s.policy = staticPolicy{keys, leaves}
	case "optimistic":
		s.policy = optimisticPolicy{keys}
	case "ideal":
		s.policy = &idealPolicy{sim: s}
	case "doorman":
		s.policy = doormanPolicy{keys, leaves}
	default:
		s.policy, err = newLeafPolicy(s)
	}
	return err
}

// limited is a key with its limit.
type limited struct {
	name        string
	rate, burst float64
}

// A bucket is a token bucket.
type bucket struct {
	rate, burst, tokens float64
	at                  time.Duration
}

// fill refills the bucket up to an instant.
func (b *bucket) fill(now time.Duration) {
	if now > b.at {
		b.tokens = min(b.tokens+b.rate*(now-b.at).Seconds(), b.burst)
		b.at = now
	}
}

func (b *bucket) take(now time.Duration) bool {
	b.fill(now)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// change changes the rate and the burst, and keeps the tokens, at most the burst.
func (b *bucket) change(now time.Duration, rate, burst float64) {
	b.fill(now)
	b.rate, b.burst, b.at = rate, burst, max(b.at, now)
	b.tokens = min(b.tokens, burst)
}

// buckets returns full buckets of a part of the limits. A burst below 1 would allow
// nothing.
func buckets(keys []limited, part float64, now time.Duration) []bucket {
	all := make([]bucket, len(keys))
	for i, k := range keys {
		burst := max(k.burst*part, 1)
		all[i] = bucket{rate: k.rate * part, burst: burst, tokens: burst, at: now}
	}
	return all
}
