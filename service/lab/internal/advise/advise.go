package advise

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/recording"
	"github.com/weir-go/weir/service/lab/internal/recorded"
)

// Options say what advice is for.
type Options struct {
	// Quantile and Target are an objective of latency: this share of the requests takes at most Target. If
	// Target is zero, there is none.
	Quantile float64
	Target   time.Duration
	// Load is the load to size for, as a multiple of the busiest time of the recording. If zero, 1.
	Load float64
	// Seed seeds the bootstrap.
	Seed uint64
}

// Advice describes the service of a recording. Times are in seconds.
type Advice struct {
	Requests int     `json:"requests"`
	Lost     uint64  `json:"lost"`          // requests without a record
	Cut      string  `json:"cut,omitempty"` // why the rest of the file is not read
	Length   float64 `json:"length"`

	// Knee is in requests in flight. Without a Value, it is not known, and Low is a lower bound, or High an upper one.
	Knee Interval `json:"knee"`
	// Capacity is the highest throughput, in requests a second, and Alone the response time without other
	// requests.
	Capacity Interval `json:"capacity"`
	Alone    Interval `json:"alone"`
	// Contention and Coherence are σ and κ of the Universal Scalability Law.
	Contention Interval `json:"contention"`
	Coherence  Interval `json:"coherence"`

	Law string `json:"law,omitempty"`
	// Workers is the number of the law, if it has one.
	Workers *float64           `json:"workers"`
	Errors  map[string]float64 `json:"held_out_errors,omitempty"` // by law
	Most    float64            `json:"most_inflight"`             // in the busiest window
	Doubts  []string           `json:"doubts"`

	// History has the capacity of each span of time in which it did not change, the last one last. The other
	// figures describe the last one.
	History []Span `json:"history,omitempty"`

	Rejected    int      `json:"rejected"`
	Servable    *float64 `json:"servable_share"`    // of Rejected: the part for which there was capacity
	Unwanted    int      `json:"unwanted"`          // requests that had lost their caller when the work ended
	WastedShare float64  `json:"wasted_work_share"` // their part of the time of all work

	Recommended *Recommendation `json:"recommended,omitempty"`

	file    *recorded.File
	records []recording.Record // in the order of Intended
	windows []window
	parts   []part // of which the last is described
}

// A Span is a part of the recording.
type Span struct {
	From     float64  `json:"from"`
	To       float64  `json:"to"`
	Knee     Interval `json:"knee"`
	Capacity Interval `json:"capacity"`
}

// A Recommendation has settings. If it is not Feasible, it has none.
type Recommendation struct {
	Limit       int     `json:"limit"`
	Queue       int     `json:"queue"`
	MaxWait     float64 `json:"max_wait"`
	Timeout     float64 `json:"timeout"`
	RetryBudget float64 `json:"retry_budget"` // retries as a share of the requests
	Instances   int     `json:"instances"`    // for the load, if one has served the recording
	Demand      float64 `json:"demand"`       // requests a second that they are for
	Feasible    bool    `json:"feasible"`     // the objective can be met at all
}

// Advise describes the service of a recording, and recommends settings.
func Advise(file *recorded.File, o Options) *Advice {
	records := slices.Clone(file.Records)
	slices.SortStableFunc(records, func(a, b recording.Record) int { return cmp.Compare(a.Intended, b.Intended) })
	ws := windows(records)
	a := &Advice{
		Requests: len(records), Lost: file.Lost, Cut: file.Note(), Doubts: []string{},
		file: file, records: records, windows: ws, parts: split(ws, o.Seed),
	}
	if n := len(records); n > 0 {
		a.Length = (records[n-1].Intended - records[0].Intended).Seconds()
	}
	a.count()
	if !a.Fitted() {
		a.Doubts = append(a.Doubts, a.few())
		return a
	}
	last := a.parts[len(a.parts)-1]
	for _, p := range a.parts {
		p.fit.countWorkers(records, p)
		a.History = append(a.History, Span{
			From: (p.ws[0].from - ws[0].from).Seconds(), To: (p.ws[len(p.ws)-1].to - ws[0].from).Seconds(),
			Knee: p.fit.kneeInterval(), Capacity: p.fit.capacityInterval(),
		})
	}
	f := last.fit
	a.Law, a.Errors, a.Most = f.law.name, f.errors, f.most
	if least, most := levels(last.ws); !varied(least, most) {
		// What varies then is chance: it makes curves of any shape.
		a.Capacity, a.Law, a.Errors, a.History = Interval{Low: f.throughputSeen()}, "", nil, nil
		a.Doubts = append(a.Doubts, fmt.Sprintf("The load stayed at one level, %s to %s requests/s: capacity and knee cannot be told from it. A recording while the load grows tells them, such as one of weirlab load --rate 50..400@30s.", round(least.rate()), round(most.rate())))
		return a
	}
	a.Knee, a.Capacity = f.kneeInterval(), f.capacityInterval()
	if f.bound.High == nil {
		a.Alone = f.interval((*model).alone)
	}
	if f.known && !math.IsInf(f.model.workers, 1) {
		a.Workers = &f.model.workers
	}
	if f.known {
		a.Contention = f.interval(func(m *model) float64 { return m.sigma })
		a.Coherence = f.interval(func(m *model) float64 { return m.kappa })
	}
	a.doubt(last)
	a.servable()
	a.recommend(last, o)
	return a
}

// Fitted reports whether the recording has enough for a fit. Without one, nothing is known about the service.
func (a *Advice) Fitted() bool { return len(a.parts) > 0 }

// few says why there is no fit.
func (a *Advice) few() string {
	known := 0
	for i := range a.records {
		if recorded.Known(&a.records[i]) {
			known++
		}
	}
	if 2*known < a.Requests {
		return fmt.Sprintf("Of %d requests, the work of %d is known from its beginning to its end: the others were rejected, failed, or lost their callers. So capacity and knee are not known.", a.Requests, known)
	}
	return "Too few requests: capacity and knee need at least eight spans of time, each with some requests that end in it, and five times as long as these take."
}

// count counts what needs no fit.
func (a *Advice) count() {
	var all, wasted time.Duration
	for i := range a.records {
		r := &a.records[i]
		if r.Outcome.Rejected() {
			a.Rejected++
		}
		if !r.Outcome.Worked() {
			continue
		}
		all += r.Response()
		if recorded.Abandoned(r) {
			a.Unwanted++
			wasted += r.Response()
		}
	}
	if all > 0 {
		a.WastedShare = wasted.Seconds() / all.Seconds()
	}
}

// doubt says what the data cannot tell.
func (a *Advice) doubt(p part) {
	say := func(format string, args ...any) { a.Doubts = append(a.Doubts, fmt.Sprintf(format, args...)) }
	f := p.fit
	switch {
	case !f.known && f.bound.High != nil:
		say("There were always at least %s requests in flight, far above the knee. A recording with less load tells more.", round(*f.bound.High))
	case !f.known && 100*a.Rejected > a.Requests:
		say("What was admitted never came near the knee, which is at least %s requests in flight, while %d requests were rejected: a recording with a higher limit tells more.", round(*f.bound.Low), a.Rejected)
	case !f.known && f.ambiguous():
		say("The load may not have come near the knee: it is at least %s requests in flight, and there were %s at most. A recording in which the load grows for longer tells more.", round(*f.bound.Low), round(f.most))
	case !f.known:
		say("The load never came near the knee: it is at least %s requests in flight. A recording with more load tells more.", round(*f.bound.Low))
	case f.least() > 0.5*f.model.knee():
		say("The service was never idle: what a request takes alone, and so the knee, follows from the shape of the curve only.")
	}
	if k := a.Knee; f.known && *k.High > unsettled**k.Low {
		say("The knee is anywhere from %s to %s requests in flight, so the settings are rough. A limit auto finds its own.", round(*k.Low), round(*k.High))
	}
	unseen := 0
	for i := range a.windows {
		if w := &a.windows[i]; w.offered > 0 && !w.fits() {
			unseen++
		}
	}
	if 10*unseen > len(a.windows) {
		say("%d %% of the time is left out: too few requests ended then, or their callers had left and the work may have gone on unseen.", 100*unseen/len(a.windows))
	}
	if a.Lost > 0 {
		say("%d requests have no record, so there was more in flight than it seems. A Recorder with more Records, or a Drain more often, keeps all.", a.Lost)
	}
	if f.noise > 6 {
		say("The windows vary more than chance explains: the service has a part that the laws do not know, such as another load, pauses, or classes that come and go.")
	}
}

// unsettled is how many times the lower bound of the knee is the upper one from which on it is rough.
const unsettled = 3

// ambiguous reports whether a knee that is not known may be one that the load came to.
func (f *fitted) ambiguous() bool { return f.bound.Low != nil && f.most > unsettled**f.bound.Low }

// servable estimates which part of the rejected requests there was capacity for, window by window.
func (a *Advice) servable() {
	if a.Rejected == 0 {
		return
	}
	could, counted := 0.0, 0.0
	for _, p := range a.parts {
		if !p.fit.known {
			continue
		}
		most := p.fit.model.capacity()
		for i := range p.ws {
			w := &p.ws[i]
			spare := max(most-w.done, 0) * (w.to - w.from).Seconds()
			could += min(spare, float64(w.rejected))
			counted += float64(w.rejected)
		}
	}
	if counted > 0 {
		share := could / counted
		a.Servable = &share
	}
}

// recommend derives settings.
func (a *Advice) recommend(p part, o Options) {
	f := p.fit
	if !f.known {
		return
	}
	m := &f.model
	knee, most := m.knee(), m.capacity()
	quantile := cmp.Or(o.Quantile, 0.95)
	tail := a.tailRatio(p, knee, quantile)
	r := &Recommendation{Feasible: true, Limit: max(int(math.Round(knee)), 1)}
	full := func(n int) float64 { return max(float64(n)/most, m.alone()) } // response time with n in flight
	wait := full(r.Limit)
	if o.Target > 0 {
		for r.Limit > 1 && tail*full(r.Limit) > o.Target.Seconds() {
			r.Limit--
		}
		wait = o.Target.Seconds() - tail*full(r.Limit)
		if wait < 0 {
			a.Recommended = &Recommendation{}
			return
		}
	}
	r.MaxWait, r.Queue = wait, int(most*wait)
	r.Timeout = wait + 2*a.tailRatio(p, knee, 0.99)*full(r.Limit)

	var offered []float64
	for i := range a.windows {
		w := &a.windows[i]
		offered = append(offered, float64(w.offered)/(w.to-w.from).Seconds())
	}
	slices.Sort(offered)
	busiest := offered[min(len(offered)*95/100, len(offered)-1)]
	r.RetryBudget = min(max(most/busiest-1, 0), 0.1)
	r.Demand = busiest * cmp.Or(o.Load, 1)
	r.Instances = int(math.Ceil(r.Demand / m.usable(tail, o.Target.Seconds())))
	a.Recommended = r
}

// highest is the utilization up to which an instance is loaded if there is no objective.
const highest = 0.8

// usable returns the throughput with which an instance meets an objective: at most 95 % of its capacity.
func (m *model) usable(tail, target float64) float64 {
	most := m.busiest()
	if target == 0 {
		return highest * m.throughput(most)
	}
	for share := 0.95; share > 0.05; share -= 0.01 {
		b := share * most
		if tail*m.inflight(b)/m.throughput(b) <= target {
			return m.throughput(b)
		}
	}
	return 0.05 * m.throughput(most)
}

// tailRatio returns a quantile of the response times of requests below the knee, as a multiple of their
// mean.
func (a *Advice) tailRatio(p part, knee, quantile float64) float64 {
	var below []time.Duration
	for i := range p.ws {
		w := &p.ws[i]
		if w.inflight > knee || !w.fits() {
			continue
		}
		from, _ := slices.BinarySearchFunc(a.records, w.from, func(r recording.Record, at time.Duration) int { return cmp.Compare(r.Intended, at) })
		for _, r := range a.records[from:] {
			if r.Intended >= w.to {
				break
			}
			if recorded.Known(&r) {
				below = append(below, r.Response())
			}
		}
	}
	if len(below) == 0 {
		return 2
	}
	slices.Sort(below)
	sum := 0.0
	for _, d := range below {
		sum += d.Seconds()
	}
	at := min(int(quantile*float64(len(below))), len(below)-1)
	return max(below[at].Seconds()*float64(len(below))/sum, 1)
}

func (f *fitted) kneeInterval() Interval {
	if !f.known {
		return f.bound
	}
	return f.interval((*model).knee)
}

func (f *fitted) capacityInterval() Interval {
	if !f.known {
		return Interval{Low: f.throughputSeen()}
	}
	return f.interval((*model).capacity)
}

// throughputSeen returns the highest throughput of a window, less two standard deviations.
func (f *fitted) throughputSeen() *float64 {
	least := 0.0
	for i := range f.points {
		least = max(least, math.Exp(f.points[i].throughput-2*f.points[i].sdX))
	}
	return &least
}

// round formats a number with two or three digits.
func round(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
