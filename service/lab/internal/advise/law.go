package advise

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// A law says how throughput and response time follow from the number of busy workers. Its parameters are
// logarithms of positive numbers.
type law struct {
	name string
	// start returns guesses of the parameters, from the shortest mean response and the most in flight
	// of the windows.
	start func(least, most float64) [][]float64
	model func(p []float64) model
}

// A model is a law with its parameters: a station of workers, behind other work that has no limit.
//
// With b busy workers, a request works for S·(1 + σ(b−1) + κb(b−1)) (Gunther's Universal Scalability Law),
// so the throughput is b over that. The queue in front of c workers has, on average, v·Lq requests: Lq is that
// of M/M/c, and v = (1+CV²)/2 after Allen and Cunneen. By Little's law, N = X·Z + b + v·Lq are in flight, and
// the response time is N/X.
type model struct {
	service      float64 // S, in seconds, of a request alone
	other        float64 // Z, in seconds: work before or after the station
	workers      float64 // c; infinite if there is no bound
	sigma, kappa float64
	variability  float64 // v
}

// throughput returns the requests a second of b busy workers.
func (m *model) throughput(b float64) float64 {
	more := max(b-1, 0)
	return b / (m.service * (1 + m.sigma*more + m.kappa*b*more))
}

// inflight returns the requests in flight with b busy workers.
func (m *model) inflight(b float64) float64 {
	n := b + m.other*m.throughput(b)
	if !math.IsInf(m.workers, 1) {
		n += m.variability * queue(m.workers, b/m.workers)
	}
	return n
}

// many is the number of workers from which on Sakasegawa's approximation is good enough.
const many = 30

// queue returns the mean number of requests that wait in M/M/c with the utilization rho < 1.
func queue(c, rho float64) float64 {
	idle := max(1-rho, 1e-9)
	if c > many {
		return math.Pow(rho, math.Sqrt(2*(c+1))) / idle
	}
	// Erlang's formulas for a number of workers that need not be whole: B = a^c·e^−a / Γ(c+1, a).
	a := c * rho
	log, _ := math.Lgamma(c + 1)
	b := math.Exp(c*math.Log(a)-a-log) / mathext.GammaIncRegComp(c+1, a)
	return b / (1 - rho*(1-b)) * rho / idle
}

// busiest returns the number of busy workers with which the throughput is the highest.
func (m *model) busiest() float64 {
	b := m.workers
	if m.kappa > 0 {
		b = min(b, math.Sqrt(max(1-m.sigma, 0.01)/m.kappa))
	}
	return b
}

// knee is the least number in flight with which the throughput is the highest, if no request waits for
// chance alone. Without contention, that is X_max·R_min.
func (m *model) knee() float64 {
	b := m.busiest()
	if math.IsInf(b, 1) {
		return b
	}
	return b + m.other*m.throughput(b)
}

// capacity is the highest throughput.
func (m *model) capacity() float64 {
	b := m.busiest()
	if math.IsInf(b, 1) {
		return b
	}
	return m.throughput(b)
}

// alone is the response time without any other request.
func (m *model) alone() float64 { return m.service + m.other }

// laws are the candidates, the simplest first.
var laws = []law{
	{
		name:  "little", // as many workers as come
		start: func(least, _ float64) [][]float64 { return [][]float64{{math.Log(least)}} },
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: math.Inf(1), variability: 1}
		},
	},
	{
		name: "workers", // M/M/c-like
		start: func(least, most float64) (all [][]float64) {
			for _, f := range []float64{0.8, 0.3, 0.05} {
				all = append(all, []float64{math.Log(least), math.Log(f * most), 0})
			}
			return all
		},
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: max(math.Exp(p[1]), 0.5), variability: varies(p[2])}
		},
	},
	{
		name: "pool", // the same, behind other work
		start: func(least, most float64) (all [][]float64) {
			for _, f := range []float64{0.8, 0.3, 0.05} {
				all = append(all, []float64{math.Log(least / 2), math.Log(f * most / 2), 0, math.Log(least / 2)})
			}
			return all
		},
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: max(math.Exp(p[1]), 0.5), variability: varies(p[2]), other: math.Exp(p[3])}
		},
	},
	{
		name: "contention", // workers that wait for each other
		start: func(least, most float64) (all [][]float64) {
			for _, f := range []float64{0.8, 0.3, 0.05} {
				all = append(all, []float64{math.Log(least), math.Log(f * most), 0, math.Log(0.3 / (f * most))})
			}
			return all
		},
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: max(math.Exp(p[1]), 0.5), variability: varies(p[2]), sigma: math.Exp(p[3])}
		},
	},
	{
		name: "usl", // the Universal Scalability Law
		start: func(least, most float64) (all [][]float64) {
			for _, f := range []float64{0.8, 0.3, 0.05} {
				all = append(all, []float64{math.Log(least), math.Log(0.3 / (f * most)), math.Log(0.5 / sq(f*most))})
			}
			return all
		},
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: math.Inf(1), variability: 1, sigma: math.Exp(p[1]), kappa: math.Exp(p[2])}
		},
	},
	{
		name: "usl with workers",
		start: func(least, most float64) (all [][]float64) {
			for _, f := range []float64{0.8, 0.3, 0.05} {
				all = append(all, []float64{math.Log(least), math.Log(f * most), 0, math.Log(0.3 / (f * most)), math.Log(0.5 / sq(f*most))},
					[]float64{math.Log(least), math.Log(4 * f * most), 0, math.Log(0.3 / (f * most)), math.Log(0.5 / sq(f*most))})
			}
			return all
		},
		model: func(p []float64) model {
			return model{service: math.Exp(p[0]), workers: max(math.Exp(p[1]), 0.5), variability: varies(p[2]), sigma: math.Exp(p[3]), kappa: math.Exp(p[4])}
		},
	},
}

// varies bounds the variability.
func varies(p float64) float64 { return min(max(math.Exp(p), 0.1), 20) }

// doubt is how unlikely the parameters are before any data, as half a squared deviation: the variability is
// near 1.
func (m *model) doubt() float64 {
	return sq(math.Log(m.variability)/0.5) / 2
}

func sq(x float64) float64 { return x * x }

// A curve has the logarithms of throughput and response time of a model, along its load.
type curve struct{ n, x, r []float64 }

// curveSteps is the number of points of a curve.
const curveSteps = 56

// curve returns the part of a model from least to most in flight.
func (m *model) curve(least, most float64) (c curve) {
	add := func(b float64) {
		n, x := m.inflight(b), m.throughput(b)
		c.n, c.x, c.r = append(c.n, math.Log(n)), append(c.x, math.Log(x)), append(c.r, math.Log(n/x))
	}
	if math.IsInf(m.workers, 1) {
		for i := range curveSteps {
			add(least * math.Pow(most/least, float64(i)/(curveSteps-1)))
		}
		return c
	}
	const half = curveSteps / 2
	low := min(least/2, m.workers/4)
	for i := range half { // up to three quarters of the workers
		add(low * math.Pow(0.75*m.workers/low, float64(i)/half))
	}
	idle := 1 / (2 + 4*most) // of the workers, at the end
	for i := range half + 1 {
		add(m.workers * (1 - 0.25*math.Pow(4*min(idle, 0.2), float64(i)/half)))
	}
	return c
}
