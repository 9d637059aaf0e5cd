package sla

import (
	"slices"
	"time"

	"github.com/weir-go/weir/service/lab/internal/trace"
)

// answers are the ends of the requests of an offer, as the client and the server saw them.
type answers struct{ client, server []trace.Record }

// point counts the requests with an intended start after the first part of an offer and,
// for the goodput, the requests that ended in that time.
func (a answers) point(o offer) Point {
	from := time.Duration(o.skip * float64(o.duration))
	within := func(at time.Duration) bool { return at >= from && at < o.duration }
	var all, successes, failures, refusals, refusing, sending []time.Duration
	served := 0
	for _, r := range a.client {
		if r.Success() && within(r.End) {
			served++
		}
		if !within(r.Intended) {
			continue
		}
		all = append(all, r.Latency())
		sending = append(sending, r.Start-r.Intended)
		if r.Success() {
			successes = append(successes, r.Latency())
			continue
		}
		failures = append(failures, r.Latency())
		if r.Rejected() {
			refusals = append(refusals, r.End-r.Start)
		}
	}
	for _, r := range a.server {
		if r.Rejected() && within(r.Start) {
			refusing = append(refusing, r.End-r.Start)
		}
	}
	return Point{
		Row: o.row.Name, Rate: o.rate, Requests: len(all), Goodput: float64(served) / (o.duration - from).Seconds(),
		Success: float64(len(successes)) / float64(max(len(all), 1)),
		All:     quantiles(all), Successes: quantiles(successes), Failures: quantiles(failures),
		Refusals: quantiles(refusals), Refusing: quantiles(refusing), Sending: quantiles(sending),
	}
}

// quantiles sorts the durations.
func quantiles(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	// The nearest rank.
	at := func(parts int) time.Duration { return all[(len(all)*parts+9999)/10_000-1] }
	return Latency{Count: len(all), P50: at(5000), P95: at(9500), P99: at(9900), P999: at(9990), P9999: at(9999), Max: at(10_000)}
}
