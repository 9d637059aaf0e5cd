package servicetime

import (
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestEstimatesOfTheService(t *testing.T) {
	var e Estimator
	if e.Service != 0 || e.Wait(5) != 0 || !math.IsInf(e.Within(time.Second, 3), 1) {
		t.Errorf("%+v: want nothing known", e)
	}
	e.Ended(-1)
	for range 100 {
		e.Ended(100 * ms)
	}
	if e.Service != 100*ms || e.Quick != 100*ms || e.Within(time.Second, 3) != 30 {
		t.Errorf("service %v, quick %v, %v within a second", e.Service, e.Quick, e.Within(time.Second, 3))
	}
	e.Ended(time.Hour)
	if e.Service != 100*ms+100*ms/16 || e.Quick != 100*ms+300*ms/64 {
		t.Errorf("after an outlier: service %v, quick %v: want it to count for two and for four", e.Service, e.Quick)
	}
	e.Ended(10 * ms)
	if e.Quick > 60*ms || e.Service < 90*ms {
		t.Errorf("after quick work: service %v, quick %v", e.Service, e.Quick)
	}
}

// Units that leave while a request waits set the pace.
func TestPaceOfDepartures(t *testing.T) {
	var e Estimator
	now := time.Duration(0)
	e.Freed(now, 5, true) // without demand
	if e.Wait(1) != 0 {
		t.Errorf("%v: want nothing known", e.Wait(1))
	}
	e.Wanted(now)
	for range 20 {
		now += 10 * ms
		e.Freed(now, 2, true)
	}
	if got := e.Wait(6); got < 30*ms-1 || got > 30*ms+1 {
		t.Errorf("%v until six units have left: want 30 ms", got)
	}
	e.Freed(now+10*ms, 2, false)
	was := e.Wait(6)
	now += time.Hour
	e.Freed(now, 2, false)
	if e.Demand || e.Wait(6) != was {
		t.Errorf("%v: want the idle hour not to count", e.Wait(6))
	}
	e.Wanted(now)
	e.Freed(now+100*ms, 1, true)
	if e.Wait(6) <= was {
		t.Errorf("%v: want a slower pace", e.Wait(6))
	}
}

func TestPercentile(t *testing.T) {
	var h Histogram
	if h.P99() != 0 || h.Usual() != 0 || h.Lasts(time.Second) != 0 {
		t.Error("want nothing known")
	}
	for range 120 {
		h.Add(8 * ms)
	}
	h.Add(time.Second) // less than a hundredth
	if h.P99() != 8*ms || h.Usual() != 16*ms {
		t.Errorf("P99 %v, usual %v: want 8 and 16 ms, exactly", h.P99(), h.Usual())
	}
	h.Add(time.Second)
	h.Add(time.Second) // more than a hundredth, and more than two
	if h.P99() != time.Second || h.Known() != 123 {
		t.Errorf("P99 %v of %v: want a second", h.P99(), h.Known())
	}
	for range 5 * memory {
		h.Add(10 * ms)
	}
	if d := h.P99() - 10*ms; d.Abs() > time.Microsecond || h.Known() > memory {
		t.Errorf("P99 %v of %v: want the old work forgotten", h.P99(), h.Known())
	}
}

func TestQuickWork(t *testing.T) {
	var h Histogram
	if h.Quick() != 0 {
		t.Error("want nothing known")
	}
	for range 80 {
		h.Add(100 * ms)
	}
	for range 19 {
		h.Add(ms)
	}
	if h.Quick().Round(ms) != 100*ms {
		t.Errorf("%v: want that less than a fifth does not count", h.Quick())
	}
	h.Add(ms)
	h.Add(ms)
	if h.Quick().Round(ms) != ms {
		t.Errorf("%v: want a millisecond", h.Quick())
	}
}

// The two longest of a few successes say nothing about the others.
func TestOutliersOfAFew(t *testing.T) {
	for _, tt := range []struct {
		took []time.Duration
		want time.Duration
	}{
		{[]time.Duration{time.Hour}, time.Hour},
		{[]time.Duration{time.Hour, 8 * ms}, 8 * ms},
		{[]time.Duration{time.Hour, 8 * ms, time.Minute}, 8 * ms},
		{[]time.Duration{time.Hour, 8 * ms, time.Minute, time.Second}, time.Second},
	} {
		var h Histogram
		for _, d := range tt.took {
			h.Add(d)
		}
		h.AddAbandoned(10 * time.Minute)
		if got := h.P99().Round(ms); got != tt.want || h.Lasts(ms) > 2*tt.want {
			t.Errorf("%v: P99 %v, abandoned work lasts for %v: want %v, and twice that at most", tt.took, got, h.Lasts(ms), tt.want)
		}
	}
}

func TestBucketsAreInOrder(t *testing.T) {
	last := -1
	for d := time.Duration(1); d > 0 && d < math.MaxInt64/3; d = d*5/4 + 1 {
		b := bucketOf(d)
		if b < last || b > last+1 && last >= 0 || b >= bucketCount {
			t.Fatalf("%v is in bucket %d, after %d", d, b, last)
		}
		last = b
	}
	if last != bucketCount-1 || bucketOf(-1) != 0 || bucketOf(math.MaxInt64) != last {
		t.Errorf("the last is %d of %d", last, bucketCount)
	}
}

// Abandoned work lasts as long as work of its age does on average, and Usual at most.
func TestHowLongAbandonedWorkLasts(t *testing.T) {
	var h Histogram
	for range 20 {
		h.Add(10 * ms)
		h.Add(100 * ms)
	}
	for age, want := range map[time.Duration]time.Duration{
		ms:            55 * ms,  // either
		20 * ms:       100 * ms, // no longer the quick one
		90 * ms:       100 * ms,
		5 * time.Hour: 200 * ms, // an outlier: Usual
	} {
		if got := h.Lasts(age); got < want-ms || got > want+ms {
			t.Errorf("of age %v: %v: want %v", age, got, want)
		}
	}
	for range 20 { // they had reached 20 ms, so more work is long than succeeds
		h.AddAbandoned(20 * ms)
	}
	if got := h.Lasts(ms); got < 65*ms || got > 80*ms {
		t.Errorf("with abandoned work: %v: want about 2/3 of it to last for 100 ms", got)
	}
	before := h.Lasts(5 * time.Hour)
	for range manyAbandoned {
		h.AddAbandoned(20 * ms)
	}
	if got := h.Lasts(5 * time.Hour); got != 2*before {
		t.Errorf("while nothing succeeds: %v: want twice %v", got, before)
	}
}

// Work that was abandoned counts for a half in the bucket of its age.
func TestAbandonedInABucket(t *testing.T) {
	var h Histogram
	for range 20 {
		h.Add(10 * ms)
		h.Add(100 * ms)
		h.AddAbandoned(10 * ms)
	}
	// Of 60 that reach the bucket, 20 of 50 end in it.
	if got := h.Lasts(ms); got < 63*ms || got > 65*ms {
		t.Errorf("%v: want 64 ms", got)
	}
}
