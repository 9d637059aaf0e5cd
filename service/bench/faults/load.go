package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	rate  = 20 // of the limit, a second
	burst = 60
	units = 6                      // of leases of a key
	ttl   = 900 * time.Millisecond // of leases

	patience = 2 * time.Second // how long a caller waits
	pace     = 40 * time.Millisecond
)

// rules returns the limits, with further fields of the rule for leases.
func rules(ofSlots string) string {
	return fmt.Sprintf("rules:\n  - {name: rate, glob: \"k*\", rate: %d/s, burst: %d}\n"+
		"  - {name: slots, glob: \"slots*\", concurrency: {limit: %d, ttl: %v, max_ttl: %[4]v}%s}\n", rate, burst, units, ttl, ofSlots)
}

// An answer is a request as its caller sees it.
type answer struct {
	target      int
	asked, took time.Duration
	granted     bool
	step        string // see Weir-Degraded
	err         error  // if it has no decision
}

// A load is callers, each of which asks for one token again and again.
type load struct {
	began time.Time
	quit  context.CancelFunc
	group sync.WaitGroup

	mu      sync.Mutex // guards answers
	answers []answer
}

// An asker sends a request.
type asker func(target int) (granted bool, step string, err error)

// start starts a load of callers for each target.
func startLoad(targets, callers int, ask asker) *load {
	ctx, quit := context.WithCancel(context.Background())
	l := &load{began: time.Now(), quit: quit}
	for i := range targets * callers {
		l.group.Go(func() {
			for ctx.Err() == nil {
				a := answer{target: i % targets, asked: l.now()}
				a.granted, a.step, a.err = ask(a.target)
				a.took = l.now() - a.asked
				l.mu.Lock()
				l.answers = append(l.answers, a)
				l.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(pace - a.took%pace):
				}
			}
		})
	}
	return l
}

func (l *load) now() time.Duration { return time.Since(l.began) }

// sofar returns the answers until now.
func (l *load) sofar() answers {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.answers)
}

// stop ends the load, and returns all answers.
func (l *load) stop() answers {
	l.quit()
	l.group.Wait()
	return l.answers
}

// tokens is an asker for tokens of a key.
func (w *world) tokens(key string, targets ...*proc) asker {
	return func(target int) (bool, string, error) {
		return decision(w.client.Post(targets[target].url()+"/rate/"+key, "", nil))
	}
}

// decision reads an answer. The error says that it has no decision, and what it has.
func decision(resp *http.Response, err error) (granted bool, step string, _ error) {
	if err != nil {
		return false, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		err = fmt.Errorf("%s, %v: %s", resp.Status, resp.Header, body)
	}
	return err == nil && resp.StatusCode == http.StatusOK, resp.Header.Get("Weir-Degraded"), err
}

type answers []answer

// between returns the answers to requests that were sent in a span of time.
func (all answers) between(from, to time.Duration) (some answers) {
	for _, a := range all {
		if a.asked >= from && a.asked < to {
			some = append(some, a)
		}
	}
	return some
}

// of returns the answers of some targets.
func (all answers) of(targets ...int) (some answers) {
	for _, a := range all {
		if slices.Contains(targets, a.target) {
			some = append(some, a)
		}
	}
	return some
}

// excess returns the most tokens that were granted beyond a rate in any span of time. A token counts in a span that
// has the request and its answer, so the excess is never above the truth.
func (all answers) excess(rate float64) (most float64) {
	var granted answers
	for _, a := range all {
		if a.granted {
			granted = append(granted, a)
		}
	}
	slices.SortFunc(granted, func(a, b answer) int { return cmp.Compare(a.asked+a.took, b.asked+b.took) })
	for _, first := range granted {
		n := 0.0
		for _, last := range granted {
			if last.asked >= first.asked {
				n++
				most = max(most, n-rate*(last.asked+last.took-first.asked).Seconds())
			}
		}
	}
	return most
}

// failures returns the answers without a decision.
func (all answers) failures() (some answers) {
	for _, a := range all {
		if a.err != nil {
			some = append(some, a)
		}
	}
	return some
}

// quantile returns a quantile of the times that answers took, in milliseconds.
func (all answers) quantile(q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	took := make([]time.Duration, len(all))
	for i := range all {
		took[i] = all[i].took
	}
	slices.Sort(took)
	return took[min(int(q*float64(len(took))), len(took)-1)].Seconds() * 1000
}

// A use is n units that were held from one instant to another.
type use struct{ from, to time.Time }

// holders lease units, renew them and return them.
type holders struct {
	w     *world
	quit  context.CancelFunc
	group sync.WaitGroup

	mu   sync.Mutex // guards uses
	uses []use
}

// hold starts holders of units of a key for each target.
func (w *world) hold(key string, each int, targets ...*proc) *holders {
	ctx, quit := context.WithCancel(context.Background())
	h := &holders{w: w, quit: quit}
	for i := range each * len(targets) {
		h.group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h.once(key, targets[i%len(targets)], n)
			}
		})
	}
	return h
}

// once leases a unit, renews it a few times, and returns it or not. A holder has its unit until it returns it, or until
// the time to live has passed since it sent the last request that was answered.
func (h *holders) once(key string, at *proc, n int) {
	sent := time.Now()
	var lease struct {
		ID string `json:"lease_id"`
	}
	if h.ask("POST", at.url()+"/lease/"+key, &lease) != http.StatusOK {
		time.Sleep(3 * pace)
		return
	}
	u := use{time.Now(), sent.Add(ttl)}
	for range n % 4 {
		time.Sleep(ttl / 3)
		sent := time.Now()
		status := h.ask("POST", at.url()+"/lease/"+key+"/"+lease.ID, nil)
		if status == http.StatusOK && sent.Before(u.to) {
			u.to = sent.Add(ttl)
		}
		now := time.Now()
		if status == http.StatusNotFound && now.Before(u.to) {
			u.to = now
		}
		if !now.Before(u.to) {
			break
		}
	}
	if n%3 > 0 {
		if now := time.Now(); now.Before(u.to) {
			u.to = now
		}
		h.ask("DELETE", at.url()+"/lease/"+key+"/"+lease.ID, nil)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses = append(h.uses, u)
}

// ask sends a request, and returns its status; 0 if there is none.
func (h *holders) ask(method, url string, v any) int {
	r, err := http.NewRequest(method, url, nil)
	check(err)
	resp, err := h.w.client.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && v != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// stop ends the holders, and returns the most units that were held at a time.
func (h *holders) stop() float64 {
	h.quit()
	h.group.Wait()
	type event struct {
		at    time.Time
		delta int
	}
	var events []event
	for _, u := range h.uses {
		if u.to.After(u.from) {
			events = append(events, event{u.from, 1}, event{u.to, -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Or(a.at.Compare(b.at), a.delta-b.delta) })
	n, most := 0, 0
	for _, e := range events {
		n += e.delta
		most = max(most, n)
	}
	return float64(most)
}
