package proxypage

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
	"github.com/weir-go/weir/service/internal/proxy/forward"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/plan"
)

// maxRows bounds the classes, rules and origins of a State. A file has at most 100 classes
// besides the class default.
const maxRows = 101

// State is the state of the proxy. All rates are measured over the same period.
type State struct {
	NowMS     int64  `json:"now_ms"`
	StartedMS int64  `json:"started_ms"`
	Words     string `json:"words"`    // the state in a sentence
	Level     string `json:"level"`    // of it: healthy, shedding, failing or draining
	SinceMS   int64  `json:"since_ms"` // begin of the origin's condition or, if that is well, when an origin went out
	// WindowMS is the period of all rates: some seconds, or 0 if the proxy has just
	// started and there are none.
	WindowMS int64 `json:"window_ms"`

	Law     Law      `json:"law"`
	Total   Total    `json:"total"`
	Flow    Flow     `json:"per_second"`
	Waits   []string `json:"waits"`  // upper bounds of the 50th, 95th and 99th percentile of the time in the queue; none if no request was admitted
	Shadow  bool     `json:"shadow"` // no request is rejected
	Ready   bool     `json:"ready"`
	Origins []Origin `json:"origins"`

	File *proxy.FileReport `json:"file,omitempty"` // of rules; none without one
	// Classes and Rules are in the order of the file. If there are more than 101, these are
	// the ones with the most recent rejections and denials, then with the most requests.
	Classes    []Class `json:"classes"`
	Rules      []Rule  `json:"rules"`
	AllClasses int     `json:"all_classes"`
	AllRules   int     `json:"all_rules"`
	AllOrigins int     `json:"all_origins"`

	Pressure *plan.PressureReport `json:"pressure,omitempty"`    // none without a bound
	Limits   *limits.Report       `json:"total_limit,omitempty"` // of all classes together; none without one
	History  []Sample             `json:"history,omitempty"`     // the oldest first
}

// Law is Little's law of the period: Inflight = Throughput × MeanMS ÷ 1000.
type Law struct {
	Inflight   float64  `json:"inflight"`          // mean
	Throughput float64  `json:"throughput"`        // exchanges that ended, per second
	MeanMS     *float64 `json:"mean_ms,omitempty"` // time in flight per exchange that ended; nil if none did
	// Quantiles of the times in flight of the exchanges that ended; nil if none did.
	P50MS *float64 `json:"p50_ms,omitempty"`
	P95MS *float64 `json:"p95_ms,omitempty"`
	P99MS *float64 `json:"p99_ms,omitempty"`
}

// Total sums up the limits of all classes, at one instant.
type Total struct {
	Limit       int    `json:"limit"`
	Mode        string `json:"mode"`   // of the limit: a number or an algorithm, of the class default
	Limits      int    `json:"limits"` // that Limit sums up
	Inflight    int    `json:"inflight"`
	Former      int    `json:"former"` // the part of Inflight of classes that are gone
	Waiting     int    `json:"waiting"`
	LongLived   int    `json:"long_lived"`
	Abandoned   int    `json:"abandoned"`
	Connections int    `json:"connections"`
}

// A Sample is a State of the past.
type Sample struct {
	AtMS       int64    `json:"at_ms"`
	Limit      int      `json:"limit"`
	Inflight   int      `json:"inflight"`
	Waiting    int      `json:"waiting"`
	Throughput float64  `json:"throughput"`
	Rejected   float64  `json:"rejected"`
	Denied     float64  `json:"denied"`
	Would      float64  `json:"would"` // be rejected or denied, but for shadow mode
	P50MS      *float64 `json:"p50_ms"`
	P95MS      *float64 `json:"p95_ms"`
	P99MS      *float64 `json:"p99_ms"`
	Reloads    uint64   `json:"reloads"`
	Level      string   `json:"level"`
}

func stateOf(now, then reading) State {
	r := &now.report
	d := now.work.At.Sub(then.work.At)
	st := State{
		NowMS: now.work.At.UnixMilli(), SinceMS: r.Since.UnixMilli(), WindowMS: d.Milliseconds(),
		Law: lawOf(now.work.Since(then.work, 0.5, 0.95, 0.99)), Total: totalOf(r),
		Shadow: r.Mode == "shadow", Ready: r.Ready, File: r.File, Pressure: r.Pressure, Limits: r.Total,
		Origins: originsOf(r.Origins, then.report.Origins, d), Rules: rulesOf(r.Rules, then.report.Rules, d),
	}
	was := map[string]counts{}
	for i := range then.report.Classes {
		c := &then.report.Classes[i]
		was[c.Name] = countsOf(c)
	}
	all := counts{rejected: map[string]uint64{}, wouldReject: map[string]uint64{}}
	for i := range r.Classes {
		c := &r.Classes[i]
		more := countsOf(c).since(was[c.Name])
		all.add(more)
		st.Classes = append(st.Classes, Class{*c, more.perSecond(d)})
	}
	st.Flow, st.Waits = all.perSecond(d), all.quantiles(0.5, 0.95, 0.99)
	if st.Level, st.Words = words(&st, &r.Status); st.Level == "degraded" {
		st.SinceMS = r.OutSince.UnixMilli()
	}
	st.bound()
	return st
}

func lawOf(w forward.WorkPeriod) Law {
	l := Law{Inflight: w.Inflight}
	if w.Ended == 0 {
		return l
	}
	l.Throughput = float64(w.Ended) / w.Period.Seconds()
	l.MeanMS, l.P50MS, l.P95MS, l.P99MS = ms(w.Mean), ms(w.Times[0]), ms(w.Times[1]), ms(w.Times[2])
	return l
}

func ms(d time.Duration) *float64 {
	v := float64(d.Microseconds()) / 1000
	return &v
}

// totalOf sums up the limits.
func totalOf(r *proxy.Report) Total {
	t := Total{LongLived: r.LongLived, Abandoned: r.Abandoned, Connections: r.Connections, Former: r.Former, Inflight: r.Former}
	for i := range r.Classes {
		l := r.Classes[i].Limit
		if l == nil {
			continue
		}
		t.Limits++
		t.Limit += l.LimitNow
		t.Inflight += l.Exchanges
		t.Waiting += l.Waiting
		t.Mode = l.Limit.String()
	}
	if r.Total != nil {
		t.Limit = min(t.Limit, r.Total.LimitNow)
		t.Waiting += r.Total.Waiting
	}
	return t
}

// bound leaves out rows beyond maxRows.
func (st *State) bound() {
	st.AllClasses, st.AllRules, st.AllOrigins = len(st.Classes), len(st.Rules), len(st.Origins)
	st.Classes = busiest(st.Classes, func(a, b *Class) int {
		return cmp.Or(
			cmp.Compare(b.PerSecond.Rejected+b.PerSecond.Denied, a.PerSecond.Rejected+a.PerSecond.Denied),
			cmp.Compare(b.PerSecond.Requests, a.PerSecond.Requests),
		)
	})
	st.Rules = busiest(st.Rules, func(a, b *Rule) int {
		return cmp.Or(cmp.Compare(b.DeniedRate, a.DeniedRate), cmp.Compare(b.WouldDenyRate, a.WouldDenyRate), cmp.Compare(b.AllowedRate, a.AllowedRate))
	})
	st.Origins = busiest(st.Origins, func(a, b *Origin) int {
		return cmp.Or(cmp.Compare(out(b), out(a)), cmp.Compare(b.Inflight, a.Inflight))
	})
}

// out is 1 for an origin that is not in.
func out(o *Origin) int {
	if o.State == "in" {
		return 0
	}
	return 1
}

// busiest returns the first maxRows rows by an order, in their original order.
func busiest[T any](rows []T, order func(a, b *T) int) []T {
	if len(rows) <= maxRows {
		return append([]T{}, rows...)
	}
	places := make([]int, len(rows))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return order(&rows[a], &rows[b]) })
	slices.Sort(places[:maxRows])
	chosen := make([]T, maxRows)
	for i, place := range places[:maxRows] {
		chosen[i] = rows[place]
	}
	return chosen
}

// sample returns what the history keeps of a State.
func (st *State) sample() Sample {
	s := Sample{
		AtMS: st.NowMS, Limit: st.Total.Limit, Inflight: st.Total.Inflight, Waiting: st.Total.Waiting,
		Throughput: st.Law.Throughput, Rejected: st.Flow.Rejected, Denied: st.Flow.Denied, Would: st.Flow.WouldReject,
		P50MS: st.Law.P50MS, P95MS: st.Law.P95MS, P99MS: st.Law.P99MS, Level: st.Level,
	}
	for i := range st.Rules {
		s.Would += st.Rules[i].WouldDenyRate
	}
	if st.File != nil {
		s.Reloads = st.File.Reloads
	}
	return s
}
