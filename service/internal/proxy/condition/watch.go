package condition

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/loadsign"
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
	// Rejecting names the classes with a limit that rejects requests, and total for the limit of all
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

// A Watcher keeps the Status. It is safe for concurrent use.
type Watcher struct {
	counts  func() Snapshot // since the start
	log     *slog.Logger
	failure atomic.Pointer[failure] // the last one to get an answer of an origin

	mu       sync.Mutex // guards the fields below
	was      Snapshot
	at       time.Time // of was
	now      Status
	badAt    time.Time // last time of a bad condition
	wellAt   time.Time // last time of answers without one
	logged   Condition // the last one logged
	loggedAt time.Time
	changed  time.Time // when logged changed
}

// A failure is the error of a request without an answer.
type failure struct{ error }

// New returns a watcher of counts.
func New(counts func() Snapshot, log *slog.Logger) *Watcher {
	return &Watcher{counts: counts, log: log}
}

// NoteFailure keeps the error of a request without an answer for the log.
func (w *Watcher) NoteFailure(err error) { w.failure.Store(&failure{err}) }

// A Snapshot holds the state, and the counts since the start or of a period.
type Snapshot struct {
	Limit, Inflight, Waiting, LongLived int

	Admitted uint64
	Rejected uint64           // by limits
	Limits   map[Limit]uint64 // requests that each limit has rejected; nil if there is only one
	Spared   uint64           // rejected by the guard
	Signs    [loadsign.Count]uint64
	Out      []string // origins that are out, each with the cause
	Origins  int      // of all
}

// A Limit names a limit. Another limit of the same name, after a reload, has another id.
type Limit struct {
	Name string
	ID   any
}

// since subtracts the counts of an earlier snapshot.
func (s Snapshot) since(was *Snapshot) Snapshot {
	for i := range s.Signs {
		s.Signs[i] -= was.Signs[i]
	}
	s.Admitted -= was.Admitted
	s.Rejected -= was.Rejected
	s.Spared -= was.Spared
	limits := make(map[Limit]uint64, len(s.Limits))
	for l, n := range s.Limits {
		limits[l] = n - was.Limits[l]
	}
	s.Limits = limits
	return s
}

// rejecting returns the names of the limits that have rejected requests, the most frequent first.
func (s *Snapshot) rejecting() (names []string) {
	limits := slices.Collect(maps.Keys(s.Limits))
	slices.SortFunc(limits, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(s.Limits[b], s.Limits[a]), cmp.Compare(a.Name, b.Name))
	})
	for _, l := range limits {
		if s.Limits[l] > 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

// Status returns the current Status, at most statusInterval old.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.updateLocked(time.Now())
	return w.now
}

func (w *Watcher) updateLocked(now time.Time) {
	if w.now.Condition == "" {
		w.now = Status{Condition: Well, Message: "no requests yet", Since: now}
		w.logged, w.loggedAt, w.changed = Well, now.Add(-logEvery), now
	} else if now.Sub(w.at) < statusInterval {
		return
	}
	all := w.counts()
	lately := all.since(&w.was)
	w.was, w.at = all, now
	w.now.Out, w.now.Origins = all.Out, all.Origins
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
	w.logLocked(now, lately.Rejected+lately.Spared)
}

// logLocked logs the condition if it has changed, or if a reminder is due.
func (w *Watcher) logLocked(now time.Time, rejected uint64) {
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
	if failed := w.failure.Load(); failed != nil && w.now.Condition.originFails() {
		args = append(args, "last_error", failed.Error())
	}
	if w.now.Condition == Well {
		w.failure.Store(nil)
		level = slog.LevelInfo
		args = append(args, "was", string(w.logged), "for", now.Sub(w.changed).Round(statusInterval))
	}
	if w.logged != w.now.Condition {
		w.changed = now
	}
	w.logged, w.loggedAt = w.now.Condition, now
	w.log.Log(context.Background(), level, w.now.Message, args...)
}

// OriginOut names an origin that goes out, for Run.
const OriginOut = "origin_out"

// worseThan returns the bad condition, or OriginOut, that is not in an earlier status; or "".
func (s *Status) worseThan(was *Status) string {
	switch {
	case s.Condition != was.Condition && s.Condition != Well:
		return string(s.Condition)
	case slices.ContainsFunc(s.Out, func(out string) bool {
		return !slices.ContainsFunc(was.Out, func(other string) bool { return origin(other) == origin(out) })
	}):
		return OriginOut
	}
	return ""
}

// origin returns the origin that an element of Status.Out names. Its cause changes when a trial fails in another way.
func origin(out string) string {
	name, _, _ := strings.Cut(out, " (")
	return name
}

// Run logs changes of the condition until ctx ends. It calls worse with each bad condition that begins, and
// with OriginOut.
func (w *Watcher) Run(ctx context.Context, worse func(what string)) {
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	was := Status{Condition: Well}
	for {
		now := w.Status()
		if what := now.worseThan(&was); what != "" {
			worse(what)
		}
		was = now
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
