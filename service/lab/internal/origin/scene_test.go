package origin_test

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/lab/internal/origin"
)

// A scene is an origin in a bubble, and what it told of every request.
type scene struct {
	*origin.Origin
	mu   sync.Mutex // guards done
	done []origin.Done
}

// play runs a story in virtual time.
func play(t *testing.T, cfg origin.Config, story func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		cfg.Observe = func(d origin.Done) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.done = append(s.done, d)
		}
		o, err := origin.New(cfg)
		testrig.Must(t, err)
		s.Origin = o
		story(t, s)
	})
}

// every is a service time without a spread.
func every(d time.Duration) origin.ServiceTime { return origin.ServiceTime{Mean: d} }

// arrive sends a request and goes on once the origin has it: in a worker, in
// the queue, or answered.
func (s *scene) arrive(ctx context.Context) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	go s.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/any/path", nil))
	synctest.Wait()
	return rec
}

func (s *scene) arriveTimes(t *testing.T, n int) {
	for range n {
		s.arrive(t.Context())
	}
}

// ended waits for as long as it takes to finish all work, and returns the
// requests in the order of their ends; at one instant, in the order of their statuses.
func (s *scene) ended() []origin.Done {
	time.Sleep(time.Hour)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.done, func(a, b origin.Done) int { return cmp.Or(cmp.Compare(a.End, b.End), a.Status-b.Status) })
	return s.done
}

func (s *scene) ends() (ends []time.Duration) {
	for _, d := range s.ended() {
		ends = append(ends, d.End)
	}
	return ends
}

func (s *scene) wantEnds(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := s.ends(); !slices.Equal(got, want) {
		t.Errorf("requests ended at %v: want %v", got, want)
	}
}

func (s *scene) wantDone(t *testing.T, want ...origin.Done) {
	t.Helper()
	if got := s.ended(); !slices.Equal(got, want) {
		t.Errorf("ended:\n%+v\nwant:\n%+v", got, want)
	}
}

// wantPresent checks what is at the origin now.
func (s *scene) wantPresent(t *testing.T, workers, inflight, waiting int) {
	t.Helper()
	synctest.Wait()
	if st := s.Stats(); st.Workers != workers || st.Inflight != inflight || st.Waiting != waiting {
		t.Errorf("%d workers, %d in flight, %d waiting: want %d, %d, %d",
			st.Workers, st.Inflight, st.Waiting, workers, inflight, waiting)
	}
}

func (s *scene) change(t *testing.T, c origin.Change) {
	t.Helper()
	testrig.Must(t, s.Set(c))
}
