package origin_test

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/service/lab/internal/origin"
)

const second = time.Second

// Seven workers at two seconds each do 3.5 a second, whatever is offered.
func TestCapacity(t *testing.T) {
	cfg := origin.Config{Workers: 7, ServiceTime: every(2 * second), Queue: 1000}
	play(t, cfg, func(t *testing.T, s *scene) {
		for range 600 { // 10 a second for a minute
			s.arrive(t.Context())
			time.Sleep(second / 10)
		}
		const from, to = 10 * second, 50 * second
		n := 0
		for _, d := range s.ended() {
			if d.Status != http.StatusOK {
				t.Fatalf("%+v", d)
			}
			if d.End > from && d.End <= to {
				n++
			}
		}
		if want := 3.5 * (to - from).Seconds(); float64(n) != want {
			t.Errorf("%d requests done in %v: want %v", n, to-from, want)
		}
	})
}

func TestFirstInFirstOut(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 2}
	play(t, cfg, func(t *testing.T, s *scene) {
		for range 3 {
			s.arrive(t.Context())
			time.Sleep(second / 2)
		}
		s.wantDone(t,
			origin.Done{Start: 0, End: 2 * second, Status: 200},
			origin.Done{Start: second / 2, End: 4 * second, Status: 200},
			origin.Done{Start: second, End: 6 * second, Status: 200},
		)
	})
}

func TestQueueIsBounded(t *testing.T) {
	for _, queue := range []int{0, 1, 5} {
		cfg := origin.Config{Workers: 2, ServiceTime: every(2 * second), Queue: queue}
		play(t, cfg, func(t *testing.T, s *scene) {
			time.Sleep(second)
			s.arriveTimes(t, 2+queue)
			s.wantPresent(t, 2, 2, queue)
			refused := s.arrive(t.Context())
			if refused.Code != 503 || refused.Header().Get("Retry-After") != "1" || refused.Body.Len() == 0 || refused.Body.Len() > 100 {
				t.Errorf("queue of %d: %d %v %q: want a short 503 with Retry-After: 1", queue, refused.Code, refused.Header(), refused.Body)
			}
			if first := s.ended()[0]; first != (origin.Done{Start: second, End: second, Status: 503}) {
				t.Errorf("queue of %d: first to end: %+v: want the refusal, at once", queue, first)
			}
			if st := s.Stats(); st.Ended[503] != 1 || st.Ended[200] != uint64(2+queue) || st.Inflight+st.Waiting != 0 {
				t.Errorf("queue of %d: %+v", queue, st)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	play(t, origin.Config{Workers: 1}, func(t *testing.T, s *scene) {
		for _, path := range []string{"/", "//a", "/a/../b", "/metrics/", "/-"} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				rec := httptest.NewRecorder()
				r := httptest.NewRequest(method, "/", nil)
				r.URL.Path = path
				s.ServeHTTP(rec, r)
				if rec.Code != 200 || rec.Body.String() != "ok\n" {
					t.Errorf("%s %s: %d %q: want 200 ok", method, path, rec.Code, rec.Body)
				}
			}
		}
	})
}

// A client that leaves, from a worker or from the queue, does not stop the work.
func TestAbandonedWorkGoesOn(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(4 * second), Queue: 10}
	play(t, cfg, func(t *testing.T, s *scene) {
		impatient, leave := context.WithCancel(t.Context())
		s.arrive(impatient)
		s.arrive(impatient)
		s.arrive(t.Context())
		time.Sleep(second)
		leave()
		s.wantPresent(t, 1, 1, 2)
		s.wantDone(t,
			origin.Done{End: 4 * second, Status: 200, Abandoned: true},
			origin.Done{End: 8 * second, Status: 200, Abandoned: true},
			origin.Done{End: 12 * second, Status: 200},
		)
		if st := s.Stats(); st.Ended[200] != 3 || st.Abandoned != 2 || st.Ended[499] != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAbandonedWorkStops(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(4 * second), Queue: 10, CancelAbandoned: true}
	play(t, cfg, func(t *testing.T, s *scene) {
		impatient, leave := context.WithTimeout(t.Context(), 2*second)
		defer leave()
		worse, leaveToo := context.WithTimeout(t.Context(), second)
		defer leaveToo()
		working := s.arrive(impatient)
		s.arrive(worse)
		s.arrive(t.Context())
		time.Sleep(second)
		s.wantPresent(t, 1, 1, 1)
		s.wantDone(t,
			origin.Done{End: second, Status: 499, Abandoned: true},     // from the queue
			origin.Done{End: 2 * second, Status: 499, Abandoned: true}, // from the worker, which is free then
			origin.Done{End: 6 * second, Status: 200},
		)
		if st := s.Stats(); st.Ended[200] != 1 || st.Abandoned != 2 || st.Ended[499] != 2 || working.Code != 499 {
			t.Errorf("%+v, %d", st, working.Code)
		}
	})
}

func TestFailuresComeAfterTheWork(t *testing.T) {
	cfg := origin.Config{Workers: 1, ServiceTime: every(2 * second), Queue: 1, FailureRate: 1}
	play(t, cfg, func(t *testing.T, s *scene) {
		s.arriveTimes(t, 2)
		s.wantDone(t, origin.Done{End: 2 * second, Status: 500}, origin.Done{End: 4 * second, Status: 500})
		if st := s.Stats(); st.Ended[500] != 2 || st.Ended[200] != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestFailureRate(t *testing.T) {
	const n = 10_000
	for _, rate := range []float64{0, 0.01, 0.3, 1} {
		play(t, origin.Config{Workers: 1, FailureRate: rate, Seed: 1}, func(t *testing.T, s *scene) {
			s.arriveTimes(t, n)
			st := s.Stats()
			// Five standard deviations of a binomial share: none at 0 and 1.
			off, most := math.Abs(float64(st.Ended[500])/n-rate), 5*math.Sqrt(rate*(1-rate)/n)
			if off > most || st.Ended[200]+st.Ended[500] != n {
				t.Errorf("%d of %d failed: want %v ± %v", st.Ended[500], n, rate, most)
			}
		})
	}
}

// The seed determines the sequence of service times, also if some of the work fails.
func TestSeed(t *testing.T) {
	times := func(seed uint64, failures float64) (ends []time.Duration) {
		cfg := origin.Config{Workers: 1, Queue: 50, Seed: seed, FailureRate: failures,
			ServiceTime: origin.ServiceTime{Mean: second, Distribution: "exponential"}}
		play(t, cfg, func(t *testing.T, s *scene) {
			s.arriveTimes(t, 50)
			ends = s.ends()
		})
		return ends
	}
	one := times(1, 0)
	if !slices.Equal(one, times(1, 0)) || !slices.Equal(one, times(1, 0.5)) {
		t.Error("the same seed gave other service times")
	}
	if slices.Equal(one, times(2, 0)) {
		t.Error("another seed gave the same service times")
	}
}

func TestBodyIsBounded(t *testing.T) {
	play(t, origin.Config{Workers: 1}, func(t *testing.T, s *scene) {
		for _, tt := range []struct{ size, want int }{{0, 200}, {10 << 20, 200}, {10<<20 + 1, 413}} {
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, tt.size))))
			if rec.Code != tt.want {
				t.Errorf("a body of %d bytes: %d: want %d", tt.size, rec.Code, tt.want)
			}
		}
		if st := s.Stats(); st.Ended[413] != 1 || st.Ended[200] != 2 {
			t.Errorf("%+v", st)
		}
	})
}
