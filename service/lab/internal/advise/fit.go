package advise

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// A point is a window as the laws see it: the logarithms of throughput and of response time over work in
// flight, with their standard deviations.
type point struct {
	n                    float64
	throughput, response float64
	sdX, sdR             float64
}

// modelError is the standard deviation of a law itself, which no number of requests removes.
const modelError = 0.01

// points turns windows into points. Below the knee, what ends in a window came before it: throughput there
// is the mean of what came and what ended, which is right to first order while the load grows. Above the
// knee, what comes says nothing.
func points(ws []window, knee float64) (all []point) {
	var spreads []float64
	for i := range ws {
		if ws[i].fits() {
			spreads = append(spreads, ws[i].spread)
		}
	}
	if len(spreads) == 0 {
		return nil
	}
	slices.Sort(spreads)
	spread := spreads[len(spreads)/2] // of a single window, it would depend on the mean
	for i := range ws {
		w := &ws[i]
		if !w.fits() || w.inflight <= 0 {
			continue
		}
		x := w.done
		if w.inflight < 0.7*knee {
			x = (w.done + w.arrived) / 2
		}
		// The logarithm of a mean is too small, by half the squared coefficient of variation of the mean.
		vx, vr := 1/float64(w.ended), sq(spread)/float64(w.began)
		all = append(all, point{
			n: w.inflight, throughput: math.Log(x) + vx/2, response: math.Log(w.response) + vr/2,
			sdX: math.Sqrt(vx + sq(modelError)), sdR: math.Sqrt(vr + sq(modelError)),
		})
	}
	return all
}

// huber grows linearly for large deviations, so that a few odd windows do not decide. It takes a squared
// deviation.
func huber(z2 float64) float64 {
	const knot = 3
	if z2 > knot*knot {
		return knot*math.Sqrt(z2) - knot*knot/2
	}
	return z2 / 2
}

// off returns the squared distance of a point from a curve, in standard deviations. Both throughput and
// response time of a window are measured with an error, and what is in flight is their product: so the
// nearest point of the curve counts, and not the one with the same number in flight.
func (pt *point) off(c *curve) float64 {
	best := math.Inf(1)
	n := math.Log(pt.n)
	for i := 1; i < len(c.x) && c.n[i-1] <= n+1; i++ {
		if c.n[i] < n-1 {
			continue
		}
		x0, r0 := (c.x[i-1]-pt.throughput)/pt.sdX, (c.r[i-1]-pt.response)/pt.sdR
		dx, dr := (c.x[i]-c.x[i-1])/pt.sdX, (c.r[i]-c.r[i-1])/pt.sdR
		along := 0.0
		if length := dx*dx + dr*dr; length > 0 {
			along = min(max(-(x0*dx+r0*dr)/length, 0), 1)
		}
		best = min(best, sq(x0+along*dx)+sq(r0+along*dr))
	}
	return min(best, 1e6)
}

// miss returns how far a model is from points.
func (m *model) miss(pts []point) (sum float64) {
	least, most := span(pts)
	c := m.curve(least/4, most*4)
	for i := range pts {
		sum += huber(pts[i].off(&c))
	}
	return sum
}

// span returns the least and the most in flight.
func span(pts []point) (least, most float64) {
	least = math.Inf(1)
	for i := range pts {
		least, most = min(least, pts[i].n), max(most, pts[i].n)
	}
	return least, most
}

func (l *law) loss(p []float64, pts []point) float64 {
	for _, v := range p {
		if math.Abs(v) > 40 {
			return math.Inf(1)
		}
	}
	m := l.model(p)
	if m.sigma > 1 || m.busiest() < 1 {
		return math.Inf(1)
	}
	sum := m.miss(pts) + m.doubt()
	if math.IsNaN(sum) {
		return math.Inf(1)
	}
	return sum
}

// fit returns the parameters with the least loss, from the best of several starts.
func (l *law) fit(pts []point, starts [][]float64) (best []float64, loss float64) {
	loss = math.Inf(1)
	for _, start := range starts {
		problem := optimize.Problem{Func: func(x []float64) float64 { return l.loss(x, pts) }}
		result, err := optimize.Minimize(problem, start, &optimize.Settings{MajorIterations: 400, Converger: &optimize.FunctionConverge{Absolute: 1e-4, Iterations: 40}}, &optimize.NelderMead{SimplexSize: 0.3})
		if result == nil || err != nil && result.F > loss {
			continue
		}
		if result.F < loss {
			best, loss = slices.Clone(result.X), result.F
		}
	}
	return best, loss
}

// starts returns where to begin a fit of some points.
func (l *law) starts(pts []point) [][]float64 {
	least, most := math.Inf(1), 0.0
	for i := range pts {
		least, most = min(least, math.Exp(pts[i].response)), max(most, pts[i].n)
	}
	return l.start(least, most)
}

// heldOut returns the mean error of a law on windows that it has not seen, in five turns. The fits begin at
// p, that of all windows.
func (l *law) heldOut(pts []point, p []float64) float64 {
	const folds = 5
	sum := 0.0
	for k := range folds {
		var seen, rest []point
		for i, pt := range pts {
			if i%folds == k {
				rest = append(rest, pt)
			} else {
				seen = append(seen, pt)
			}
		}
		q, _ := l.fit(seen, [][]float64{p})
		if q == nil {
			return math.Inf(1)
		}
		m := l.model(q)
		sum += m.miss(rest)
	}
	return sum / float64(len(pts))
}

// An interval has a value and its bounds. Without one, the bound is not known.
type Interval struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

// A fitted is the best law of some windows.
type fitted struct {
	law    *law
	p      []float64
	model  model
	errors map[string]float64 // held-out error of each law
	points []point
	most   float64 // in flight, of the points
	noise  float64 // how much more the points vary than they should
	boots  []model
	others []rival  // the best fit of each law
	known  bool     // the knee
	bound  Interval // if it is not known
}

// A rival is a law with its best parameters.
type rival struct {
	model model
	loss  float64
}

// resamples is the number of bootstrap samples.
const resamples = 200

// fitWindows fits the laws to windows. It returns nil if there are too few.
func fitWindows(ws []window, seed uint64) *fitted {
	ws = merged(ws)
	pts := points(ws, 0)
	if len(pts) < fewest {
		return nil
	}
	general := &laws[len(laws)-1]
	if p, _ := general.fit(pts, general.starts(pts)); p != nil { // which windows are below the knee
		m := general.model(p)
		pts = points(ws, m.knee())
	}
	f := choose(pts)
	if f == nil {
		return nil
	}
	f.bootstrap(rand.New(rand.NewPCG(seed, 47)))
	f.identify()
	return f
}

// choose returns the law with the least held-out error, or nil if the points make no sense. A law with more
// parameters must be better by more than chance.
func choose(pts []point) *fitted {
	f := &fitted{errors: map[string]float64{}, points: pts}
	best := math.Inf(1)
	for i := range laws {
		l := &laws[i]
		p, loss := l.fit(pts, l.starts(pts))
		if p == nil {
			continue
		}
		f.others = append(f.others, rival{l.model(p), loss})
		e := l.heldOut(pts, p)
		if !math.IsInf(e, 0) {
			f.errors[l.name] = e
		}
		if f.law == nil || e < best*0.97-0.5/float64(len(pts)) {
			best, f.law, f.p = e, l, p
		}
	}
	if f.law == nil {
		return nil
	}
	f.model = f.law.model(f.p)
	_, f.most = span(pts)
	f.noise = f.variation()
	return f
}

// variation returns the mean squared deviation of the points from the model, at least 1.
func (f *fitted) variation() float64 {
	c := f.model.curve(f.least()/4, f.most*4)
	var squares []float64
	for i := range f.points {
		squares = append(squares, f.points[i].off(&c))
	}
	slices.Sort(squares)
	// The median of a squared normal deviation is 0.455; outliers do not change it.
	return max(squares[len(squares)/2]/0.455, 1)
}

func (f *fitted) least() float64 {
	least, _ := span(f.points)
	return least
}

const (
	// likely is half the deviance that a 95 % interval allows: χ²(0.95, 1)/2.
	likely = 1.92
	// near is how much of the knee the load must have come to, so that the knee is known.
	near = 0.6
	// far is how many times the knee the load must not always have been above, so that the knee is known.
	far = 4
	// together is how many requests must be in flight at a time, so that anything is known about how they
	// slow each other down.
	together = 2
)

// identify finds out whether the points tell the knee: the load came near the highest knee of the law, and near
// that of every other law that explains the points as well; and it was not always far above the knee.
func (f *fitted) identify() {
	k := f.interval((*model).knee)
	high, full := *k.High, f.law.loss(f.p, f.points)
	for _, o := range f.others {
		if (o.loss-full)/f.noise < 2*likely {
			high = max(high, o.model.knee())
		}
	}
	least := f.least()
	switch {
	case f.most < max(near*high, together):
		low := min(f.most, *k.Low)
		f.bound = Interval{Low: &low}
	case least > far**k.High:
		f.bound = Interval{High: &least}
	default:
		f.known = true
	}
}

// bootstrap fits the law to windows that are drawn again.
func (f *fitted) bootstrap(rng *rand.Rand) {
	again := make([]point, len(f.points))
	for range resamples {
		for i := range again {
			again[i] = f.points[rng.IntN(len(f.points))]
		}
		if p, _ := f.law.fit(again, [][]float64{f.p}); p != nil {
			f.boots = append(f.boots, f.law.model(p))
		}
	}
}

// interval returns a quantity of the model, with its bootstrap interval of 95 %, widened by the error of the
// law itself.
func (f *fitted) interval(of func(*model) float64) Interval {
	value := of(&f.model)
	all := []float64{value}
	for i := range f.boots {
		all = append(all, of(&f.boots[i]))
	}
	low, high := middle(all)
	low, high = min(low, value)*(1-systematic), max(high, value)*(1+systematic)
	return Interval{&value, &low, &high}
}

// middle returns the bounds of 95 % of some numbers, and sorts them.
func middle(all []float64) (low, high float64) {
	slices.Sort(all)
	cut := len(all) * 25 / 1000
	return all[cut], all[len(all)-1-cut]
}

// systematic widens the intervals: what the laws, which are simpler than a service, get wrong.
const systematic = 0.05
