package main

import (
	"fmt"
	"slices"
	"time"
)

// A result has the measurements of a target under an attack.
type result struct {
	rate     int // of legitimate requests
	sent, ok int
	delays   []time.Duration // of ok: since the instants at which the requests were due
	failures map[string]int
	took     time.Duration
	peak     int64
	cpu      float64 // processors
	did      string
}

// add merges the measurements of one worker.
func (r *result) add(w result) {
	r.sent += w.sent
	r.ok += w.ok
	r.delays = append(r.delays, w.delays...)
	for why, n := range w.failures {
		r.failures[why] += n
	}
}

func (r result) String() string {
	slices.Sort(r.delays)
	prompt, _ := slices.BinarySearch(r.delays, time.Second+1)
	s := fmt.Sprintf("%d/s\t%.2f %%\t%.1f %%\t%v\t%v\t%v\t%d MiB\t%.0f %%\t%s\t%s in %v", r.rate, r.percent(r.ok), r.percent(prompt),
		r.quantile(.5), r.quantile(.99), r.quantile(1), r.peak>>20, 100*r.cpu, r.each(), r.did, r.took.Round(time.Second))
	if len(r.failures) > 0 {
		s += fmt.Sprint("\t", r.failures)
	}
	return s
}

// each returns the CPU time of the server for each thing that the attack has done, legitimate requests included.
func (r result) each() string {
	n := 0.0
	if _, err := fmt.Sscan(r.did, &n); err != nil || n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f µs", r.cpu*float64(r.took.Microseconds())/n)
}

func (r result) percent(n int) float64 { return 100 * float64(n) / float64(max(r.sent, 1)) }

// quantile returns a quantile of the sorted delays.
func (r result) quantile(q float64) time.Duration {
	if len(r.delays) == 0 {
		return 0
	}
	return r.delays[int(q*float64(len(r.delays)-1))].Round(100 * time.Microsecond)
}
