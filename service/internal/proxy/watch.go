package proxy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/loadsign"
	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy/origins"
)

// The proxy computes its Status every statusInterval. A bad condition ends after calmFor
// without signs. Each change is logged, at most once every logEvery unless the
// origin begins to fail; a bad condition is logged every remindEvery.
const (
	statusInterval = time.Second
	calmFor        = 3 * time.Second
	logEvery       = 10 * time.Second
	remindEvery    = time.Minute
)

// A Status describes the proxy and its origin. GET /-/ready shows it.
type Status struct {
	Ready     bool      `json:"ready"` // not draining
	Condition Condition `json:"condition"`
	Message   string    `json:"message"`
	Share     float64   `json:"share,omitempty"` // of the answers with the sign, or of the rejected requests
	// Rejecting names the classes whose limit rejects requests, and total for the limit of all
	// classes, the most frequent first. It is empty if there is only one limit.
	Rejecting []string `json:"rejecting,omitempty"`
	// Out names the origins that get no requests, each with the cause, such as "http://10.0.0.5:8000 (silence)".
	Out       []string  `json:"out,omitempty"`
	OutSince  time.Time `json:"out_since,omitzero"` // when the first of them went out
	Origins   int       `json:"origin_count"`
	Since     time.Time `json:"since"`
	Limit     int       `json:"limit"`
	Inflight  int       `json:"inflight"`
	Waiting   int       `json:"waiting"`
	LongLived int       `json:"long_lived"`
}

// A watch keeps the Status.
type watch struct {
	mu       sync.Mutex // guards the fields below
	was      snapshot
	at       time.Time // of was
	now      Status
	badAt    time.Time // last time of a bad condition
	wellAt   time.Time // last time of answers without one
	logged   Condition // the last one logged
	loggedAt time.Time
	changed  time.Time // when logged changed
}

// A snapshot holds the state, and the counts since New or of a period.
type snapshot struct {
	Stats
	rejected uint64              // by limits
	limits   map[*limiter]uint64 // requests that each limit has rejected; nil if there is only one
	spared   uint64              // rejected by the guard
	signs    [loadsign.Count]uint64
}

// snapshot returns the counts since New.
func (p *Proxy) snapshot() snapshot {
	s := snapshot{Stats: p.Stats()}
	for _, why := range []weir.Reason{weir.OverLimit, weir.QueueFull, weir.Overdue, weir.TooLate} {
		s.rejected += s.Rejected[why]
	}
	if limiters := p.plan.Load().limiters; len(limiters) > 1 {
		s.limits = make(map[*limiter]uint64, len(limiters))
		for _, l := range limiters {
			s.limits[l] = l.refused()
		}
	}
	s.spared = p.all.spared.Load()
	for i := range p.signs {
		s.signs[i] = p.signs[i].Load()
	}
	return s
}

// since subtracts the counts of an earlier snapshot.
func (s snapshot) since(was *snapshot) snapshot {
	for i := range s.signs {
		s.signs[i] -= was.signs[i]
	}
	s.Admitted -= was.Admitted
	s.rejected -= was.rejected
	s.spared -= was.spared
	limits := make(map[*limiter]uint64, len(s.limits))
	for l, n := range s.limits {
		limits[l] = n - was.limits[l]
	}
	s.limits = limits
	return s
}

// rejecting returns the names of the limits that have rejected requests, the most frequent first.
func (s *snapshot) rejecting() (names []string) {
	limits := slices.Collect(maps.Keys(s.limits))
	slices.SortFunc(limits, func(a, b *limiter) int {
		return cmp.Or(cmp.Compare(s.limits[b], s.limits[a]), cmp.Compare(a.name, b.name))
	})
	for _, l := range limits {
		if s.limits[l] > 0 {
			names = append(names, l.name)
		}
	}
	return names
}

// Status returns the current Status, at most statusInterval old.
func (p *Proxy) Status() Status {
	w := &p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	p.updateLocked(time.Now())
	s := w.now
	s.Ready = !p.draining.Load()
	return s
}

func (p *Proxy) updateLocked(now time.Time) {
	w := &p.watch
	if w.now.Condition == "" {
		w.now = Status{Condition: Well, Message: "no requests yet", Since: now}
		w.logged, w.loggedAt, w.changed = Well, now.Add(-logEvery), now
	} else if now.Sub(w.at) < statusInterval {
		return
	}
	all := p.snapshot()
	lately := all.since(&w.was)
	w.was, w.at = all, now
	w.now.Out, w.now.Origins = outOf(all.Origins), len(all.Origins)
	switch {
	case w.now.Out == nil:
		w.now.OutSince = time.Time{}
	case w.now.OutSince.IsZero():
		w.now.OutSince = now
	}
	w.now.Limit, w.now.Inflight, w.now.Waiting, w.now.LongLived = all.Limit, all.Inflight, all.Waiting, all.LongLived
	c, share, ok := lately.condition()
	answered := lately.answers() > 0
	switch {
	case !answered && w.now.Condition.originFails() && !w.wellAt.After(w.badAt): // no sign of recovery
		return
	case !ok && w.now.Condition == Well: // no news
		return
	case c != Well:
		w.badAt = now
	case answered:
		w.wellAt = now
	}
	if c == Well && w.now.Condition != Well && now.Sub(w.badAt) < calmFor {
		return
	}
	if c != w.now.Condition {
		w.now.Condition, w.now.Since = c, now
	}
	w.now.Rejecting = nil
	if c == LimitUsed {
		w.now.Rejecting = lately.rejecting()
	}
	w.now.Share, w.now.Message = share, lately.message(c, share, w.now.Rejecting)
	p.logLocked(now, lately.rejected+lately.spared)
}

// outOf names the origins that are out.
func outOf(origins []origins.Stats) (names []string) {
	for _, o := range origins {
		switch o.State {
		case balance.Ejected:
			names = append(names, fmt.Sprintf("%s (%s)", o.URL, o.Cause))
		case balance.Held:
			names = append(names, o.URL+" (held)")
		}
	}
	return names
}

// logLocked logs the condition if it has changed, or if a reminder is due.
func (p *Proxy) logLocked(now time.Time, rejected uint64) {
	w := &p.watch
	quiet := now.Sub(w.loggedAt)
	if w.now.Condition.originFails() && !w.logged.originFails() {
		quiet = remindEvery // log at once
	}
	if same := w.now.Condition == w.logged; quiet < logEvery || same && (w.logged == Well || quiet < remindEvery) {
		return
	}
	level := slog.LevelWarn
	args := []any{"condition", string(w.now.Condition), "limit", w.now.Limit, "inflight", w.now.Inflight,
		"waiting", w.now.Waiting, "long_lived", w.now.LongLived, "rejected_per_s", rejected}
	if w.now.Out != nil {
		args = append(args, "origins_out", strings.Join(w.now.Out[:min(len(w.now.Out), maxNames)], ", "))
	}
	if names := w.now.Rejecting; len(names) > 0 {
		args = append(args, "rejecting", strings.Join(names, ", "))
	}
	if failed := p.lastFailure.Load(); failed != nil && w.now.Condition.originFails() {
		args = append(args, "last_error", failed.Error())
	}
	if w.now.Condition == Well {
		p.lastFailure.Store(nil)
		level = slog.LevelInfo
		args = append(args, "was", string(w.logged), "for", now.Sub(w.changed).Round(statusInterval))
	}
	if w.logged != w.now.Condition {
		w.changed = now
	}
	w.logged, w.loggedAt = w.now.Condition, now
	p.log.Log(context.Background(), level, w.now.Message, args...)
}

// Watch logs changes of the condition until ctx ends.
func (p *Proxy) Watch(ctx context.Context) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for {
		p.Status()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
