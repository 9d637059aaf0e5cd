package rate_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/rate"
)

func TestSometimes(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		often *rate.Sometimes
		calls []time.Duration // when Do is called
		want  []int           // which of the calls run
	}{
		"zero: once":                  {&rate.Sometimes{}, []time.Duration{0, 0, s}, []int{0}},
		"first":                       {&rate.Sometimes{First: 2}, []time.Duration{0, s, s, s}, []int{0, 1}},
		"first of one":                {&rate.Sometimes{First: 1}, []time.Duration{0, s, s}, []int{0}},
		"every other":                 {&rate.Sometimes{Every: 2}, []time.Duration{0, 0, 0, 0, 0}, []int{0, 2, 4}},
		"every":                       {&rate.Sometimes{Every: 1}, []time.Duration{0, 0, 0}, []int{0, 1, 2}},
		"interval":                    {&rate.Sometimes{Interval: s}, []time.Duration{0, s - 1, s, s + 1, 2 * s, 9 * s, 9 * s}, []int{0, 2, 4, 5}},
		"the longest interval":        {&rate.Sometimes{Interval: math.MaxInt64}, []time.Duration{0, s}, []int{0}},
		"negative: once":              {&rate.Sometimes{First: -1, Every: -1, Interval: -1}, []time.Duration{0, s, s}, []int{0}},
		"first, or every":             {&rate.Sometimes{First: 2, Every: 3}, make([]time.Duration, 8), []int{0, 1, 3, 6}},
		"first, or interval":          {&rate.Sometimes{First: 2, Interval: s}, []time.Duration{0, 0, s - 1, s, s}, []int{0, 1, 3}},
		"every restarts the interval": {&rate.Sometimes{Every: 3, Interval: s}, []time.Duration{0, 0, 0, s / 2, s, 3 * s / 2, 3 * s / 2}, []int{0, 3, 5, 6}},
		"all three":                   {&rate.Sometimes{First: 2, Every: 2, Interval: 2 * s}, []time.Duration{0, 0, 0, 2 * s, 2 * s, 2 * s}, []int{0, 1, 2, 3, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began := time.Now()
				var ran []int
				for i, at := range tt.calls {
					time.Sleep(at - time.Since(began))
					tt.often.Do(func() { ran = append(ran, i) })
				}
				if !slices.Equal(ran, tt.want) {
					t.Errorf("%v ran: want %v", ran, tt.want)
				}
			})
		})
	}
}

// The interval runs from the end of f.
func TestSometimesOfLongWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		often := rate.Sometimes{Interval: time.Second}
		n := 0
		for range 4 {
			often.Do(func() { n++; time.Sleep(time.Minute) })
		}
		if n != 1 {
			t.Errorf("ran %d times: want once", n)
		}
	})
}

func TestSometimesOneAtATime(t *testing.T) {
	often := rate.Sometimes{Every: 2}
	running, n := 0, 0 // the race detector watches them
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				often.Do(func() {
					if running++; running > 1 {
						t.Error("two at a time")
					}
					n++
					running--
				})
			}
		})
	}
	all.Wait()
	if n != 400 {
		t.Errorf("%d of 800 ran: want every other", n)
	}
}

// A panic leaves the lock free, and the call to the next one.
func TestSometimesOfPanic(t *testing.T) {
	var once rate.Sometimes
	n := 0
	for range 3 {
		func() {
			defer func() { _ = recover() }()
			once.Do(func() {
				if n++; n == 1 {
					panic("the first time")
				}
			})
		}()
	}
	if n != 2 {
		t.Errorf("ran %d times: want a second try, and no third", n)
	}
}
