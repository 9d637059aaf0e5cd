package forward

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Work counts the forwards that held a unit of the limit since New. The difference of
// two Works holds Little's law exactly: the time in flight is the mean number in flight
// times the period, and the number that ended times their mean time.
type Work struct {
	At       time.Time
	Inflight int           // forwards that hold a unit now
	Ended    uint64        // forwards that have released it, or have left the limit as long-lived
	Busy     time.Duration // time in flight, summed over all forwards, ended or not
	times    *hdrhistogram.Snapshot
}

// Bounds and precision of the times in flight.
const (
	leastTime, mostTime = time.Microsecond, time.Hour
	timeDigits          = 2
)

// A workMeter measures Work. It is safe for concurrent use.
type workMeter struct {
	mu       sync.Mutex // guards the fields below
	inflight int
	ended    uint64
	busy     time.Duration           // until at
	at       time.Duration           // since Forwarder.epoch, as all instants
	times    *hdrhistogram.Histogram // in microseconds
}

func newWorkMeter() *workMeter {
	return &workMeter{
		times: hdrhistogram.New(leastTime.Microseconds(), mostTime.Microseconds(), timeDigits),
	}
}

// advanceLocked adds the time in flight until now.
func (m *workMeter) advanceLocked(now time.Duration) {
	if d := now - m.at; d > 0 {
		m.busy += time.Duration(m.inflight) * d
		m.at = now
	}
}

// countBegin counts a forward that has taken a unit. It returns how many hold one.
func (m *workMeter) countBegin(now time.Duration) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(now)
	m.inflight++
	return m.inflight
}

// held returns how many forwards hold a unit.
func (m *workMeter) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inflight
}

// countEnd counts a forward that has released the unit that it took at began.
func (m *workMeter) countEnd(began, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(now)
	m.inflight--
	m.ended++
	_ = m.times.RecordValue(min(max(now-began, leastTime), mostTime).Microseconds()) // within the bounds
}

// Work returns the counts until now.
func (p *Forwarder) Work() Work {
	m := p.work
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advanceLocked(p.now())
	return Work{At: p.cfg.Epoch.Add(m.at), Inflight: m.inflight, Ended: m.ended, Busy: m.busy, times: m.times.Export()}
}

// A WorkPeriod describes the work between two instants.
type WorkPeriod struct {
	Period   time.Duration
	Inflight float64         // the mean number of forwards that held a unit
	Ended    uint64          // forwards
	Mean     time.Duration   // time in flight per forward that ended: Inflight × Period ÷ Ended; 0 if none did
	Times    []time.Duration // quantiles of the times of forwards that ended; nil if none did
}

// Since returns the work since an earlier instant, with quantiles of the times in flight.
func (w Work) Since(was Work, quantiles ...float64) WorkPeriod {
	d := WorkPeriod{Period: w.At.Sub(was.At), Ended: w.Ended - was.Ended}
	busy := w.Busy - was.Busy
	if d.Period > 0 {
		d.Inflight = float64(busy) / float64(d.Period)
	}
	if d.Ended == 0 {
		return d
	}
	d.Mean = busy / time.Duration(d.Ended)
	times := *w.times
	times.Counts = make([]int64, len(w.times.Counts))
	for i, n := range w.times.Counts {
		times.Counts[i] = n - was.times.Counts[i]
	}
	h := hdrhistogram.Import(&times)
	for _, q := range quantiles {
		d.Times = append(d.Times, time.Duration(h.ValueAtQuantile(100*q))*time.Microsecond)
	}
	return d
}
